// Command bench measures what workspaced costs and prints each figure beside its
// baseline on the same machine: a time alone says nothing about another machine.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"

	"workspaced/internal/harness"
)

// row is a figure, its baseline and its bound.
type row struct {
	Name     string  `json:"name"`
	Value    float64 `json:"value"`
	Baseline float64 `json:"baseline,omitempty"`
	Unit     string  `json:"unit"`
	Figure   float64 `json:"figure"` // what the bound is about: a difference, a ratio or the value
	Bound    float64 `json:"bound"`
	Least    bool    `json:"least,omitempty"` // the figure must be at least the bound
	What     string  `json:"what"`
}

func (r row) holds() bool {
	if r.Least {
		return r.Figure >= r.Bound
	}
	return r.Figure <= r.Bound
}

func main() {
	asJSON := flag.Bool("json", false, "print one JSON object as the last line")
	megabytes := flag.Int("file", 1024, "size of the file that is copied, in MB")
	runs := flag.Int("runs", 200, "commands of the rows about commands")
	program := flag.String("program", "", "a built workspaced (default: build it)")
	flag.Parse()
	rows, err := measure(*program, *megabytes, *runs)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	held := true
	fmt.Printf("%-44s %12s %12s  %-5s %9s  %s\n", "", "workspaced", "baseline", "", "figure", "bound")
	for _, r := range rows {
		sign, verdict := "<=", "held"
		if r.Least {
			sign = ">="
		}
		if !r.holds() {
			verdict, held = "NOT HELD", false
		}
		baseline := "-"
		if r.Baseline != 0 {
			baseline = fmt.Sprintf("%.2f", r.Baseline)
		}
		fmt.Printf("%-44s %12.2f %12s  %-5s %9.2f  %s %g %s: %s\n", r.Name, r.Value, baseline, r.Unit, r.Figure, sign, r.Bound, r.What, verdict)
	}
	if *asJSON {
		document, _ := json.Marshal(map[string]any{"rows": rows, "held": held})
		fmt.Println(string(document))
	}
	if !held {
		os.Exit(1)
	}
}

func measure(program string, megabytes, runs int) ([]row, error) {
	folder, err := os.MkdirTemp("", "workspaced-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	if program == "" {
		if program, err = harness.Build(folder, "workspaced"); err != nil {
			return nil, err
		}
	}
	var rows []row
	for _, one := range []func(*harness.Sandbox) ([]row, error){
		func(s *harness.Sandbox) ([]row, error) { return rest(s, program) },
		func(s *harness.Sandbox) ([]row, error) { return commands(s, runs) },
		output,
		func(s *harness.Sandbox) ([]row, error) { return files(s, megabytes) },
		func(s *harness.Sandbox) ([]row, error) { return crowd(s, s.Client2("api", ""), "HTTP/2") },
		func(s *harness.Sandbox) ([]row, error) { return crowd(s, s.Client("api", ""), "HTTP/1") },
	} {
		// Each with a program of its own: memory is measured from its start.
		own, err := os.MkdirTemp(folder, "run-")
		if err != nil {
			return nil, err
		}
		s, err := harness.Start(program, own)
		if err != nil {
			return nil, err
		}
		more, err := one(s)
		s.Stop()
		os.RemoveAll(own)
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	return rows, nil
}
