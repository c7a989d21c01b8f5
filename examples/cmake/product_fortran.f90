program product
    implicit none
    double precision :: a(2, 2), c(2, 2)
    a = reshape([1d0, 2d0, 3d0, 4d0], [2, 2])
    call dgemm('N', 'N', 2, 2, 2, 1d0, a, 2, a, 2, 0d0, c, 2)
    if (any(c /= matmul(a, a))) stop 1
end program
