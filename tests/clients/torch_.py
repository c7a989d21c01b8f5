"""PyTorch on the CPU: products, a batch of them, a layer forward and backward, a solve. Pip's brings MKL inside libtorch_cpu.so."""
import torch
from cases import case, n

torch.manual_seed(4)
a, b = torch.randn(2, n, n, dtype=torch.float64)
x, y = torch.randn(2, n, n)
layer = torch.nn.Linear(n, n)


def train():
    layer.zero_grad()
    layer(x).square().mean().backward()
    return layer.weight.grad.numpy()


case("matmul_float64", lambda: (a @ b).numpy())
case("matmul_float32", lambda: (x @ y).numpy())
case("einsum", lambda: torch.einsum("ij,kj->ik", a, b).numpy())
case("layer_single", train)
case("bmm", lambda: torch.bmm(a.reshape(4, n // 4, n), b.reshape(4, n, n // 4)).numpy())
case("solve", lambda: torch.linalg.solve(a + n * torch.eye(n), b).numpy())
