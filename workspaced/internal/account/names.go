package account

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// names are the names of ids, kept for a moment: a list of a folder asks for the
// same ones again and again.
type names struct {
	read   time.Time
	users  map[uint32]string
	groups map[uint32]string
}

const namesFor = time.Second

// Names returns the names of a uid and a gid, or their numbers.
func (d *Directory) Names(uid, gid uint32) (owner, group string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.names.users == nil || time.Since(d.names.read) > namesFor {
		d.names = names{
			read: time.Now(), users: readNames(d.passwd),
			groups: readNames(filepath.Join(filepath.Dir(d.passwd), "group")),
		}
		d.names.users[d.self.UID] = d.self.Name
		if _, has := d.names.groups[d.self.GID]; !has {
			d.names.groups[d.self.GID] = d.self.Name
		}
	}
	owner, group = d.names.users[uid], d.names.groups[gid]
	if owner == "" {
		owner = strconv.FormatUint(uint64(uid), 10)
	}
	if group == "" {
		group = strconv.FormatUint(uint64(gid), 10)
	}
	return owner, group
}

// readNames reads the first and third field of each line of a passwd or group file.
func readNames(path string) map[uint32]string {
	found := map[uint32]string{}
	file, err := os.Open(path)
	if err != nil {
		return found
	}
	defer file.Close()
	lines := bufio.NewScanner(io.LimitReader(file, 1<<20))
	for lines.Scan() {
		fields := strings.SplitN(lines.Text(), ":", 4)
		if len(fields) < 4 {
			continue
		}
		id, err := strconv.ParseUint(fields[2], 10, 32)
		if _, has := found[uint32(id)]; err == nil && !has {
			found[uint32(id)] = fields[0]
		}
	}
	return found
}
