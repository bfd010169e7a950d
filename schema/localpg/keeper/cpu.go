package keeper

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of CPU times in /proc on every Linux.
const tick = 10 * time.Millisecond

// CPU returns the CPU time that the command and its descendants have used so far, including descendants that have
// ended. It reads /proc, and fails on systems without it.
func (p *Process) CPU() (time.Duration, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	took, children := map[int]time.Duration{}, map[int][]int{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			continue // the process has ended: its time is now part of its parent's
		}
		parent, cpu, err := parseStat(string(content))
		pid, pidErr := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err := cmp.Or(err, pidErr); err != nil {
			return 0, fmt.Errorf("read %s: %w", file, err)
		}
		took[pid], children[parent] = cpu, append(children[parent], pid)
	}
	root := p.cmd.Process.Pid
	if _, found := took[root]; !found {
		return 0, fmt.Errorf("process %d is not in /proc", root)
	}
	return sum(root, took, children), nil
}

func sum(pid int, took map[int]time.Duration, children map[int][]int) time.Duration {
	total := took[pid]
	for _, child := range children[pid] {
		total += sum(child, took, children)
	}
	return total
}

// parseStat parses a line of /proc/PID/stat, see proc(5). The CPU time includes the children that the process has
// waited for.
func parseStat(line string) (parent int, cpu time.Duration, err error) {
	// The second field is the name in parentheses, which may itself contain spaces and parentheses.
	fields := strings.Fields(line[strings.LastIndexByte(line, ')')+1:])
	if len(fields) < 15 {
		return 0, 0, fmt.Errorf("%d fields after the name", len(fields))
	}
	parent, err = strconv.Atoi(fields[1])
	for _, field := range fields[11:15] {
		ticks, failed := strconv.Atoi(field)
		err = cmp.Or(err, failed)
		cpu += time.Duration(ticks) * tick
	}
	return parent, cpu, err
}
