package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"connectrpc.com/connect"

	"workspaced/gen/filesystem"
	"workspaced/gen/process"
	"workspaced/gen/process/processconnect"
	"workspaced/internal/harness"
)

const mib = 1 << 20

// rest measures the program that does nothing.
func rest(s *harness.Sandbox, program string) ([]row, error) {
	info, err := os.Stat(program)
	if err != nil {
		return nil, err
	}
	time.Sleep(time.Second)
	now, _, err := s.Memory()
	if err != nil {
		return nil, err
	}
	size, memory := float64(info.Size())/mib, float64(now)/mib
	return []row{
		{Name: "program on disk", Value: size, Unit: "MiB", Figure: size, Bound: 15, What: "MiB"},
		{Name: "memory at rest", Value: memory, Unit: "MiB", Figure: memory, Bound: 15, What: "MiB"},
	}, nil
}

func loginShell() (string, []string) {
	if _, err := os.Stat("/bin/bash"); err == nil {
		return "/bin/bash", []string{"-l", "-c", "true"}
	}
	return "/bin/sh", []string{"-l", "-c", "true"}
}

func request(config *process.ProcessConfig) *connect.Request[process.StartRequest] {
	closed := false
	return connect.NewRequest(&process.StartRequest{Process: config, Stdin: &closed})
}

func runOnce(c processconnect.ProcessClient, config *process.ProcessConfig, each func([]byte)) error {
	stream, err := c.Start(context.Background(), request(config))
	if err != nil {
		return err
	}
	defer stream.Close()
	ended := false
	for stream.Receive() {
		event := stream.Msg().GetEvent()
		if data := event.GetData(); data != nil && each != nil {
			each(data.GetStdout())
		}
		ended = ended || event.GetEnd() != nil
	}
	if stream.Err() == nil && !ended {
		return io.ErrUnexpectedEOF
	}
	return stream.Err()
}

// commands measures a command of the e2b client against the same shell started by
// a program directly. They take turns, so that both meet the same machine.
func commands(s *harness.Sandbox, runs int) ([]row, error) {
	shell, arguments := loginShell()
	c := s.Processes(s.Client("api", ""), connect.WithProtoJSON())
	config := &process.ProcessConfig{Cmd: shell, Args: arguments}
	bare := func() error {
		command := exec.Command(shell, arguments...)
		command.Env = append(os.Environ(), "HOME="+s.Home)
		command.Dir = s.Home
		// As workspaced starts it: kernels schedule sessions in groups of their own.
		command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		_, err := command.Output()
		return err
	}
	var through, direct []time.Duration
	ticker := time.NewTicker(time.Second / 20)
	defer ticker.Stop()
	for i := range runs + 5 {
		<-ticker.C
		began := time.Now()
		if err := runOnce(c, config, nil); err != nil {
			return nil, err
		}
		took := time.Since(began)
		<-ticker.C
		began = time.Now()
		if err := bare(); err != nil {
			return nil, err
		}
		if i >= 5 { // the first ones read the shell from the disk
			through, direct = append(through, took), append(direct, time.Since(began))
		}
	}
	p50, p99 := quantiles(through)
	base50, base99 := quantiles(direct)
	spread, bareSpread := p99/p50, base99/base50
	return []row{
		{Name: "run true, p50", Value: p50, Baseline: base50, Unit: "ms", Figure: p50 - base50, Bound: 15, What: "ms over the bare shell"},
		{Name: "run true at 20/s, p99", Value: p99, Baseline: base99, Unit: "ms", Figure: spread, Bound: 1.5, What: fmt.Sprintf("times its p50 (the bare shell's p99 is %.2f times its own)", bareSpread)},
		{Name: "run true at 20/s, p99 over p50", Value: spread, Baseline: bareSpread, Figure: spread / bareSpread, Bound: 1.5, What: "of the bare shell's"},
	}, nil
}

func quantiles(all []time.Duration) (p50, p99 float64) {
	slices.Sort(all)
	at := func(share float64) float64 {
		return float64(all[min(len(all)-1, int(share*float64(len(all))))].Microseconds()) / 1000
	}
	return at(0.5), at(0.99)
}

// output measures memory while 100 MB pass.
func output(s *harness.Sandbox) ([]row, error) {
	c := s.Processes(s.Client("api", ""), connect.WithProtoJSON())
	if err := runOnce(c, &process.ProcessConfig{Cmd: "/bin/sh", Args: []string{"-c", "head -c 1000000 /dev/zero"}}, nil); err != nil {
		return nil, err
	}
	before, _, err := s.Memory()
	if err != nil {
		return nil, err
	}
	total := 0
	if err := runOnce(c, &process.ProcessConfig{Cmd: "/bin/sh", Args: []string{"-c", "head -c 100000000 /dev/zero"}}, func(data []byte) { total += len(data) }); err != nil {
		return nil, err
	}
	_, highest, err := s.Memory()
	if err != nil {
		return nil, err
	}
	if total != 100_000_000 {
		return nil, fmt.Errorf("%d bytes came", total)
	}
	grown := float64(highest-before) / mib
	return []row{{Name: "100 MB of output, memory", Value: float64(highest) / mib, Baseline: float64(before) / mib, Unit: "MiB", Figure: grown, Bound: 8, What: "MiB more at the highest than after 1 MB"}}, nil
}

// files measures uploads and downloads against cp into the same home. Both are
// flushed: a network file system does that when a file is closed, and what only lies
// in the page cache says nothing about a home.
func files(s *harness.Sandbox, megabytes int) ([]row, error) {
	source := filepath.Join(filepath.Dir(s.Home), "source")
	block := bytes.Repeat([]byte("0123456789abcdef"), 65536)
	file, err := os.Create(source)
	if err != nil {
		return nil, err
	}
	for range megabytes {
		if _, err := file.Write(block); err != nil {
			return nil, err
		}
	}
	if err := file.Close(); err != nil {
		return nil, err
	}
	size := float64(megabytes)
	rate := func(target string, operation func() error) (float64, error) {
		best := 0.0
		for range 2 { // the better of two: the first fills the page cache
			began := time.Now()
			if err := operation(); err != nil {
				return 0, err
			}
			if err := flush(target); err != nil {
				return 0, err
			}
			best = max(best, size/time.Since(began).Seconds())
		}
		return best, nil
	}
	remove := func(path string) { _ = os.Remove(path) }
	target := filepath.Join(s.Home, "cp")
	copyUp, err := rate(target, func() error {
		remove(target)
		return exec.Command("cp", source, target).Run()
	})
	if err != nil {
		return nil, err
	}
	remove(target)
	client := s.ClientWithBuffers(mib)
	up, err := rate(filepath.Join(s.Home, "up"), func() error {
		body, err := os.Open(source)
		if err != nil {
			return err
		}
		defer body.Close()
		r, err := http.NewRequest(http.MethodPost, s.URL+"/files?path=up", body)
		if err != nil {
			return err
		}
		r.ContentLength = int64(megabytes) * mib
		response, err := client.Do(r)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("upload: %s", response.Status)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	back := filepath.Join(filepath.Dir(s.Home), "back")
	copyDown, err := rate(back, func() error {
		remove(back)
		return exec.Command("cp", filepath.Join(s.Home, "up"), back).Run()
	})
	if err != nil {
		return nil, err
	}
	down, err := rate(back, func() error {
		remove(back)
		response, err := client.Get(s.URL + "/files?path=up")
		if err != nil {
			return err
		}
		defer response.Body.Close()
		target, err := os.Create(back)
		if err != nil {
			return err
		}
		defer target.Close()
		// Without ReadFrom, which would copy in small pieces.
		count, err := io.CopyBuffer(struct{ io.Writer }{target}, response.Body, make([]byte, mib))
		if err == nil && count != int64(megabytes)*mib {
			err = io.ErrUnexpectedEOF
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	_, highest, err := s.Memory()
	if err != nil {
		return nil, err
	}
	memory := float64(highest) / mib
	return []row{
		{Name: fmt.Sprintf("%d MB up", megabytes), Value: up, Baseline: copyUp, Unit: "MB/s", Figure: up / copyUp, Bound: 0.6, Least: true, What: "of cp, both flushed"},
		{Name: fmt.Sprintf("%d MB down", megabytes), Value: down, Baseline: copyDown, Unit: "MB/s", Figure: down / copyDown, Bound: 0.6, Least: true, What: "of cp, both flushed"},
		{Name: "  memory of both", Value: memory, Unit: "MiB", Figure: memory, Bound: 30, What: "MiB at the highest"},
	}, nil
}

func flush(path string) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	return file.Sync()
}

// crowd measures many things at once: 200 processes and 50 terminals whose output is
// followed, and 20 watches.
func crowd(s *harness.Sandbox, client *http.Client, over string) ([]row, error) {
	const plain, terminals, watches = 200, 50, 20
	c := s.Processes(client, connect.WithProtoJSON())
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for i := range plain + terminals {
		r := request(&process.ProcessConfig{Cmd: "/bin/sh", Args: []string{"-c", "echo up; exec sleep 600"}})
		if i >= plain {
			r.Msg.Pty = &process.PTY{Size: &process.PTY_Size{Cols: 80, Rows: 24}}
		}
		stream, err := c.Start(ctx, r)
		if err != nil {
			return nil, err
		}
		for stream.Receive() {
			if stream.Msg().GetEvent().GetData() != nil {
				break
			}
		}
		if stream.Err() != nil {
			return nil, stream.Err()
		}
	}
	fs := s.Files(client, connect.WithProtoJSON())
	for i := range watches {
		folder := filepath.Join(s.Home, fmt.Sprint("watched-", i))
		if err := os.Mkdir(folder, 0o755); err != nil {
			return nil, err
		}
		stream, err := fs.WatchDir(ctx, connect.NewRequest(&filesystem.WatchDirRequest{Path: folder, Recursive: true}))
		if err != nil {
			return nil, err
		}
		if !stream.Receive() {
			return nil, stream.Err()
		}
	}
	list, err := c.List(ctx, connect.NewRequest(&process.ListRequest{}))
	if err != nil {
		return nil, err
	}
	if count := len(list.Msg.GetProcesses()); count != plain+terminals {
		return nil, fmt.Errorf("%d processes run", count)
	}
	_, highest, err := s.Memory()
	if err != nil {
		return nil, err
	}
	memory := float64(highest) / mib
	return []row{{Name: "270 processes, terminals, watches " + over, Value: memory, Unit: "MiB", Figure: memory, Bound: 30, What: "MiB"}}, nil
}
