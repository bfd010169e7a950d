package ingress

import "syscall"

// newRegion returns size bytes that take no memory until they are written to, a page at a time.
func newRegion(size int64) ([]byte, error) {
	region, err := syscall.Mmap(-1, 0, int(size), syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_ANON|syscall.MAP_PRIVATE|syscall.MAP_NORESERVE)
	if err != nil {
		return nil, err
	}
	// a huge page is 2 MiB; the call fails on a system without them
	_ = syscall.Madvise(region, syscall.MADV_NOHUGEPAGE)
	return region, nil
}

// freeRegion gives it back. Nobody may read it any more.
func freeRegion(region []byte) { _ = syscall.Munmap(region) }
