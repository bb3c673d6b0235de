// Command workspaced is the program inside a sandbox: processes, files, terminals,
// relayed ports and SSH over one port, for callers whose token names this pod.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"workspaced/internal/account"
	"workspaced/internal/boot"
	"workspaced/internal/sshd"
)

// version is set by the linker.
var version = "dev"

const usage = `workspaced runs in a sandbox and serves its processes, files, terminals and ports.

  workspaced run [flags] [-- command args...]   serve, and run the class's command beside it
  workspaced install FOLDER                     copy this program into a folder (init container)
  workspaced health [ADDRESS]                   exit 0 if the server on the loopback address is healthy
  workspaced passwd --to FILE --group FILE      write passwd and group files with entries for this user
  workspaced version

Each flag of run can be set by a variable: --pod-uid by WORKSPACED_POD_UID.
`

func main() {
	if len(os.Args) < 2 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	code := 0
	var err error
	switch arguments := os.Args[2:]; os.Args[1] {
	case "run":
		code, err = run(arguments)
	case "install":
		err = install(arguments)
	case "health":
		err = health(arguments)
	case "passwd":
		err = passwd(arguments)
	case "sftp-server":
		err = sshd.ServeSFTP()
	case "version":
		fmt.Println(version)
	default:
		fmt.Fprint(os.Stderr, usage)
		code = 2
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "workspaced:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func install(arguments []string) error {
	if len(arguments) != 1 {
		return fmt.Errorf("install: name one folder")
	}
	path, digest, err := boot.Install(arguments[0])
	if err == nil {
		fmt.Printf("%s sha256:%s\n", path, digest)
	}
	return err
}

func health(arguments []string) error {
	address := "127.0.0.1:49983"
	if len(arguments) > 0 {
		address = arguments[0]
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/health", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusNoContent {
		return fmt.Errorf("health: %s", response.Status)
	}
	return nil
}

func passwd(arguments []string) error {
	set := newFlags("passwd")
	from := set.String("from", "/etc/passwd", "the passwd file of the image, with the group file beside it")
	to := set.String("to", "", "the passwd file to write")
	group := set.String("group", "", "the group file to write")
	name := set.String("name", "user", "the user's name")
	home := set.String("home", os.Getenv("HOME"), "the user's home")
	shell := set.String("shell", "", "the user's shell (default: bash if the image has it, else sh)")
	uid := set.Uint("uid", uint(os.Geteuid()), "the user's id")
	gid := set.Uint("gid", uint(os.Getegid()), "the group's id")
	if err := set.Parse(arguments); err != nil {
		return err
	}
	if *to == "" || *group == "" {
		return fmt.Errorf("passwd: --to and --group are needed")
	}
	entry := account.Account{Name: *name, UID: uint32(*uid), GID: uint32(*gid), Home: *home, Shell: *shell}
	if err := account.WriteEntry(*from, *to, entry); err != nil {
		return err
	}
	return account.WriteGroup(filepath.Join(filepath.Dir(*from), "group"), *group, entry)
}
