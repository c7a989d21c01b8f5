"""What the Python clients share: N is the size, CASES the cases wanted (all). A case prints its time and the norm of its result, which t_client.sh compares."""
import os
import time

import numpy as np

n = int(os.environ.get("N", 400))


def case(name, compute, warm=True):
    """`warm`: computed once before it is timed."""
    if name not in os.environ.get("CASES", name).split(","):
        return
    if warm:
        compute()
    start = time.perf_counter()
    result = compute()
    print("time", name, time.perf_counter() - start)
    print(name, float(np.linalg.norm(result)))
