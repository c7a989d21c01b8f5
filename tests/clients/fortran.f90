! A Fortran program with explicit calls of both routines, all four layouts.
program client
    implicit none
    integer :: n, i, j, ios
    character(len=20) :: text
    character, parameter :: t(2) = ['N', 'T']
    double precision, allocatable :: a(:, :), b(:, :), c(:, :)
    real, allocatable :: s(:, :), r(:, :)
    integer(8) :: start, finish, rate
    n = 400
    call get_environment_variable('N', text, status=ios)
    if (ios == 0) read (text, *) n
    allocate (a(n, n), b(n, n), c(n, n), s(n, n), r(n, n))
    do j = 1, n
        do i = 1, n
            a(i, j) = sin(dble(i + 3*j)); b(i, j) = cos(dble(2*i - j))
        end do
    end do
    s = real(a)
    do i = 1, 2
        do j = 1, 2
            c = 1
            call system_clock(start, rate)
            call dgemm(t(i), t(j), n, n, n, 0.5d0, a, n, b, n, 2d0, c, n)
            call system_clock(finish)
            print '(5a,es24.16)', 'dgemm_', t(i), t(j), ' ', '', sqrt(sum(c**2))
            print '(4a,f12.6)', 'time dgemm_', t(i), t(j), ' ', dble(finish - start)/rate
        end do
    end do
    call sgemm('N', 'T', n, n, n, 1e0, s, n, s, n, 0e0, r, n)
    print '(a,es16.8)', 'sgemm_float ', sqrt(sum(dble(r)**2))
end program
