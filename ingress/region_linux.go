package ingress

import "syscall"

// newRegion returns size bytes outside of Go's heap. A page occupies memory when it is first written.
func newRegion(size int64) ([]byte, error) {
	region, err := syscall.Mmap(-1, 0, int(size), syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_ANON|syscall.MAP_PRIVATE|syscall.MAP_NORESERVE)
	if err != nil {
		return nil, err
	}
	// A huge page would occupy 2 MiB at once. The call fails on a system without huge pages.
	_ = syscall.Madvise(region, syscall.MADV_NOHUGEPAGE)
	return region, nil
}

// freeRegion unmaps the region. The caller must not use any slice of it afterwards.
func freeRegion(region []byte) { _ = syscall.Munmap(region) }
