package account

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// As runs a file operation with the rights of the account. Only root has to
// change them; they belong to the thread, and a thread that cannot get its own
// rights back is given up.
func (a Account) As(operation func() error) error {
	if os.Geteuid() != 0 || a.UID == 0 {
		return operation()
	}
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		// Without CAP_DAC_OVERRIDE and with no group of root's: the raw system call
		// changes this thread alone.
		if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); errno != 0 {
			result <- errno
			return
		}
		if err := unix.Setfsgid(int(a.GID)); err != nil {
			result <- err
			return
		}
		if err := unix.Setfsuid(int(a.UID)); err != nil {
			result <- err
			return
		}
		result <- operation()
	}()
	return <-result
}
