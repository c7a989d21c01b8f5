"""t_multiprocessing.py — NumPy products in many processes and threads, started in every way Python knows, before, during and after products of the
parent's. t_multiprocessing.sh runs it with the library preloaded. Products of small integers are exact: a wrong bit is a failure. Prints the number of
products that were right, in all processes."""

import concurrent.futures
import multiprocessing
import os
import subprocess
import sys
import threading

import numpy as np

SIZES = [(3, 4, 5), (64, 64, 64), (150, 200, 170), (400, 300, 350), (700, 640, 600)]


def product(seed):
    """One product; its operands come from the seed. The reference is NumPy's own integer loop, on a sample of rows."""
    rng = np.random.default_rng(seed)
    m, n, k = SIZES[seed % len(SIZES)]
    dtype = np.float32 if seed // len(SIZES) % 2 else np.float64
    a, b = rng.integers(-4, 5, (m, k)), rng.integers(-4, 5, (k, n))
    c = a.astype(dtype) @ b.astype(dtype)
    rows = np.unique(rng.integers(0, m, 12))
    if not np.array_equal(c[rows], (a[rows] @ b).astype(dtype)):
        raise AssertionError(f"seed {seed} in process {os.getpid()}: wrong")
    return 1


def several(first, count=6):
    return sum(product(seed) for seed in range(first, first + count))


def child_of_child(first):
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=lambda: queue.put(several(first)))
    child.start()
    child.join(60)
    assert child.exitcode == 0, child.exitcode
    return several(first + 50) + queue.get()


def pool(method, first):
    with multiprocessing.get_context(method).Pool(4) as workers:
        return sum(workers.map(several, range(first, first + 24, 3), chunksize=1))


def in_threads(first, work, count=8):
    with concurrent.futures.ThreadPoolExecutor(count) as threads:
        return sum(threads.map(work, range(first, first + 5 * count, 5)))


def other_programs():
    """What a shell, posix_spawn and exec leave of a preloaded library: nothing."""
    assert os.system("true") == 0
    assert subprocess.run([sys.executable, "-c", "import numpy as n; assert (n.ones((200, 200)) @ n.ones((200, 200)) == 200).all()"]).returncode == 0
    pid = os.posix_spawn("/bin/true", ["true"], os.environ)
    assert os.waitpid(pid, 0)[1] == 0
    if (pid := os.fork()) == 0:
        os.execv("/bin/true", ["true"])
    assert os.waitpid(pid, 0)[1] == 0


def main():
    right = pool("fork", 0)  # before the parent's first product
    right += several(100)
    right += pool("fork", 200)
    right += pool("spawn", 300)
    right += pool("forkserver", 400)
    right += in_threads(500, several)
    busy = threading.Event()
    counted = []

    def background():
        seed = 600
        while not busy.is_set():
            counted.append(product(seed))
            seed += 1

    threads = [threading.Thread(target=background) for _ in range(3)]
    for thread in threads:
        thread.start()
    right += pool("fork", 700)  # while other threads are in the middle of products
    right += pool("spawn", 800)
    busy.set()
    for thread in threads:
        thread.join()
    right += len(counted)
    with multiprocessing.get_context("fork").Pool(2) as workers:
        right += len(workers.map(several, [900, 950]))
    right += child_of_child(1000)
    other_programs()
    right += several(1100)
    print(right)


if __name__ == "__main__":
    main()
