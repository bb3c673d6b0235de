package token

import "time"

// SetClock replaces the clock of a file.
func SetClock(f *File, now func() time.Time) { f.now = now; f.checked = now() }
