package procs

import (
	"os"
	"testing"
)

func TestParseStat(t *testing.T) {
	for text, want := range map[string]Process{
		"12 (sh) S 1 12 10 0 -1":  {12, 1, 10, 'S'},
		"7 (a) b) ( c) R 3 7 7 0": {7, 3, 7, 'R'},
		"9 (x\n) Z 1 9 9 0":       {9, 1, 9, 'Z'},
		"":                        {},
		"12 sh S 1 12 10":         {},
		"x (sh) S 1 12 10":        {},
		"0 (sh) Z 1 12 12":        {}, // collected meanwhile, as gVisor writes it
		"-1 (sh) Z 1 12 12":       {},
		"12 (sh) S":               {},
		"12 (sh) S one 12 10":     {},
	} {
		got, ok := parseStat([]byte(text))
		if got != want || ok != (want != Process{}) {
			t.Errorf("%q: %+v %v", text, got, ok)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("12 (sh) S 1 12 10 0 -1"))
	f.Fuzz(func(_ *testing.T, raw []byte) { parseStat(raw) })
}

func TestDescends(t *testing.T) {
	parents := map[int]int{2: 1, 3: 2, 4: 3, 5: 9, 6: 7, 7: 6}
	for pid, want := range map[int]bool{3: true, 4: true, 5: false, 6: false, 8: false} {
		if descends(pid, 2, parents) != want {
			t.Errorf("%d", pid)
		}
	}
}

func TestAllLeavesThisProcessOut(t *testing.T) {
	for _, one := range All() {
		if one.PID == os.Getpid() {
			t.Fatal("it lists itself")
		}
	}
}
