package account

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// profile puts the home's programs first. Login shells, which clients of envd
// start, read /etc/profile, and that sets PATH anew in many images.
const profile = `# Written for a new home by workspaced; change it as you like.
case ":$PATH:" in
*":$HOME/.local/bin:"*) ;;
*) PATH="$HOME/.local/bin:$PATH" ;;
esac
if [ -n "${BASH_VERSION:-}" ] && [ -f "$HOME/.bashrc" ]; then . "$HOME/.bashrc"; fi
`

// WriteProfile writes ~/.profile into a home without a profile of its own.
func WriteProfile(a Account) error {
	if a.Home == "" || a.Home == "/" {
		return nil
	}
	return a.As(func() error {
		for _, name := range []string{".profile", ".bash_profile", ".bash_login"} {
			if _, err := os.Lstat(filepath.Join(a.Home, name)); !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		file, err := os.OpenFile(filepath.Join(a.Home, ".profile"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return err
		}
		_, err = file.WriteString(profile)
		return errors.Join(err, file.Close())
	})
}
