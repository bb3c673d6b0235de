// Package partial names the temporary files of uploads, so that watches can hide
// them: callers see the file that an upload replaces.
package partial

import (
	"crypto/rand"
	"regexp"
	"strings"
)

var pattern = regexp.MustCompile(`^\..+\.[A-Z2-7]{12}\.part$`)

// Name returns a new name beside a file with that name.
func Name(base string) string {
	if len(base) > 200 { // a file name has at most 255 bytes
		base = strings.ToValidUTF8(base[:200], "")
	}
	return "." + base + "." + rand.Text()[:12] + ".part"
}

// Is reports whether a file name is one of these.
func Is(name string) bool { return strings.HasSuffix(name, ".part") && pattern.MatchString(name) }
