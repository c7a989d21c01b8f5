"""scikit-learn: principal components (randomised and by the covariance), k-means, kernels, a neural network. N samples of FEATURES
features, COMPONENTS of them sought."""
import os
import warnings

import numpy as np
from cases import case, n
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.neural_network import MLPRegressor

warnings.simplefilter("ignore")
features = int(os.environ.get("FEATURES", 100))
components = int(os.environ.get("COMPONENTS", 10))
rng = np.random.default_rng(3)
x = rng.standard_normal((n, 2 * components)) @ rng.standard_normal((2 * components, features)) + 0.01 * rng.standard_normal((n, features))
y = x[:, :3].sum(axis=1)

case("pca_randomized", lambda: PCA(components, svd_solver="randomized", random_state=0).fit(x).singular_values_, warm=False)
case("pca_full", lambda: PCA(components, svd_solver="full").fit(x).singular_values_, warm=False)
case("kmeans", lambda: KMeans(8, n_init=1, random_state=0, max_iter=10).fit(x).inertia_, warm=False)
case("ridge", lambda: Ridge().fit(x, y).coef_, warm=False)
case("rbf_kernel", lambda: rbf_kernel(x, gamma=1e-3), warm=False)
case("mlp", lambda: MLPRegressor(hidden_layer_sizes=(features,), max_iter=5, random_state=0, batch_size=min(n, 2000)).fit(x, y).coefs_[0], warm=False)

# k-means multiplies in threads of its own and therefore limits each BLAS it knows to one thread; an additional BLAS, loaded by our library, would
# defeat that
with open("/proc/self/maps") as maps:
    files = {os.path.basename(line.split()[-1]) for line in maps}
print("blas_libraries", sum("blas" in file and "gpugemm" not in file for file in files))
