#!/bin/sh
# A program that knows nothing of the library, four ways.
#
#   $ ./preload.sh
set -e
program="${PYTHON:-python3} numpy_matmul.py 64 512"
gpugemm run $program                                              # a table of who served its calls at the end
gpugemm run --mode=cpu $program                                   # the same on the CPU
gpugemm run --trace=calls.log --stats=0 $program                  # a line a call, into a file
gpugemm run --report=report.html --compare $program               # a page on where the time went
