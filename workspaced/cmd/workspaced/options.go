package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"workspaced/internal/account"
)

// options are the flags of run.
type options struct {
	listen       string
	podUID       string
	podUIDFile   string
	keys         string
	name         string
	home         string
	hostKey      string
	busyDir      string
	grace        time.Duration
	commandEnds  string
	openHealth   bool
	replay       int
	maxProcesses int
	workTree     string
	workStore    string
	workInterval time.Duration
	workFlush    time.Duration
	command      []string
}

func newFlags(name string) *flag.FlagSet {
	return flag.NewFlagSet("workspaced "+name, flag.ContinueOnError)
}

func parse(arguments []string) (options, error) {
	var o options
	set := newFlags("run")
	set.StringVar(&o.listen, "listen", ":49983", "the address to listen on, or unix:PATH")
	set.StringVar(&o.podUID, "pod-uid", "", "the uid of this pod: the audience of its tokens")
	set.StringVar(&o.podUIDFile, "pod-uid-file", "", "a file with that uid (downward API)")
	set.StringVar(&o.keys, "keys", "/etc/workspaced/keys.json", "the service's public keys (JWKS); read again when the file changes")
	set.StringVar(&o.name, "user-name", "user", "the user's name where its uid has no entry")
	set.StringVar(&o.home, "home", os.Getenv("HOME"), "the user's home")
	set.StringVar(&o.hostKey, "ssh-host-key", "", "the SSH host key (default: in the home)")
	set.StringVar(&o.busyDir, "busy-dir", filepath.Join(os.TempDir(), "workspace-busy"), "where jobs put files to be left running")
	set.DurationVar(&o.grace, "grace", 10*time.Second, "time between SIGTERM and SIGKILL for every process")
	set.StringVar(&o.commandEnds, "command-ends", "exit", "when the command ends: exit with its code, or stay")
	set.BoolVar(&o.openHealth, "open-health", false, "answer /health without a token to every address, for probes")
	set.IntVar(&o.replay, "replay-bytes", 64<<10, "output kept of each process for those who attach later")
	set.IntVar(&o.maxProcesses, "max-processes", 1024, "processes started by callers that may run at once")
	set.StringVar(&o.workTree, "work-tree", "", "a folder on a local disk that is kept in a store of the home")
	set.StringVar(&o.workStore, "work-tree-store", "", "that store (default: in the home)")
	set.DurationVar(&o.workInterval, "work-tree-interval", time.Minute, "time between two synchronisations of the work tree")
	set.DurationVar(&o.workFlush, "work-tree-flush", time.Minute, "time for the last synchronisation, after every process ended")
	set.VisitAll(func(one *flag.Flag) {
		variable := account.Prefix + strings.ToUpper(strings.ReplaceAll(one.Name, "-", "_"))
		if value, found := os.LookupEnv(variable); found {
			if err := set.Set(one.Name, value); err != nil {
				fmt.Fprintf(os.Stderr, "workspaced: %s: %v\n", variable, err)
			}
		}
	})
	if err := set.Parse(arguments); err != nil {
		return o, err
	}
	o.command = set.Args()
	return o, o.complete()
}

func (o *options) complete() error {
	if o.podUID == "" && o.podUIDFile != "" {
		raw, err := os.ReadFile(o.podUIDFile)
		if err != nil {
			return fmt.Errorf("pod uid: %w", err)
		}
		o.podUID = strings.TrimSpace(string(raw))
	}
	if o.podUID == "" {
		return errors.New("--pod-uid or --pod-uid-file is needed: tokens are bound to this pod")
	}
	if o.commandEnds != "exit" && o.commandEnds != "stay" {
		return fmt.Errorf("--command-ends %q: use exit or stay", o.commandEnds)
	}
	if o.replay < 4<<10 || o.replay > 16<<20 {
		return fmt.Errorf("--replay-bytes %d: use 4096 to 16777216", o.replay)
	}
	if o.maxProcesses < 1 {
		return fmt.Errorf("--max-processes %d: use 1 or more", o.maxProcesses)
	}
	if o.workTree != "" {
		if o.workInterval < time.Second || o.workFlush < time.Second {
			return errors.New("--work-tree-interval and --work-tree-flush: use a second or more")
		}
		if o.workStore == "" {
			if o.home == "" || o.home == "/" {
				return errors.New("--work-tree-store is needed without a home")
			}
			o.workStore = filepath.Join(o.home, ".local", "share", "workspaced", "work-tree")
		}
	}
	if o.hostKey == "" && o.home != "" && o.home != "/" {
		o.hostKey = filepath.Join(o.home, ".local", "state", "workspaced", "ssh_host_ed25519_key")
	}
	return nil
}
