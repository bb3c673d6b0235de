package main

import (
	"fmt"
	"net/netip"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	name = "eth0"
	mtu  = 1500
)

// As the VPC CNI has it: the only neighbour of a pod, which answers for everybody.
var gateway = netip.MustParseAddr("169.254.1.1")

// interfaces brings the loopback up, creates the interface with a default route, and returns its other end.
func interfaces(address netip.Addr) (int, error) {
	control, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(control)
	if err := up(control, "lo"); err != nil {
		return 0, err
	}
	device, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("/dev/net/tun: %w", err)
	}
	request, err := unix.NewIfreq(name)
	if err != nil {
		return 0, err
	}
	request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(device, unix.TUNSETIFF, request); err != nil {
		return 0, fmt.Errorf("an interface: %w", err)
	}
	// No IPv6 here: the kernel would announce an address of its own. Kernels without it have no such file.
	_ = os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/disable_ipv6", []byte("1"), 0)
	for _, step := range []struct {
		call    uint
		address netip.Addr
	}{
		{unix.SIOCSIFADDR, address},
		{unix.SIOCSIFNETMASK, netip.AddrFrom4([4]byte{255, 255, 255, 255})},
	} {
		request, _ := unix.NewIfreq(name)
		bytes := step.address.As4()
		if err := request.SetInet4Addr(bytes[:]); err != nil {
			return 0, err
		}
		if err := unix.IoctlIfreq(control, step.call, request); err != nil {
			return 0, fmt.Errorf("the address %s: %w", step.address, err)
		}
	}
	if err := up(control, name); err != nil {
		return 0, err
	}
	only := netip.AddrFrom4([4]byte{255, 255, 255, 255})
	if err := route(control, gateway, netip.IPv4Unspecified(), only, unix.RTF_UP|unix.RTF_HOST); err != nil {
		return 0, err
	}
	all := netip.IPv4Unspecified()
	return device, route(control, all, gateway, all, unix.RTF_UP|unix.RTF_GATEWAY)
}

func up(control int, name string) error {
	request, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(control, unix.SIOCSIFFLAGS, request); err != nil {
		return fmt.Errorf("bringing %s up: %w", name, err)
	}
	return nil
}

// rtentry is the kernel's struct of that name, on machines of 64 bits.
type rtentry struct {
	_                         uint64
	destination, via, netmask unix.RawSockaddrInet4
	flags                     uint16
	_                         int16
	_                         uint64
	_                         uintptr
	metric                    int16
	device                    *byte
	mtu, window               uint64
	_                         uint16
}

func route(control int, destination, via, netmask netip.Addr, flags uint16) error {
	device := append([]byte(name), 0)
	entry := rtentry{
		destination: unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: destination.As4()},
		via:         unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: via.As4()},
		netmask:     unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: netmask.As4()},
		flags:       flags,
		device:      &device[0],
	}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(control), unix.SIOCADDRT, uintptr(unsafe.Pointer(&entry)))
	if errno != 0 {
		return fmt.Errorf("the route to %s: %w", destination, errno)
	}
	return nil
}
