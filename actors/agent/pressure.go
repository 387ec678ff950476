package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"

	"weir/actors/agent/runner/cgroup"
	"weir/actors/agent/runner/proctree"
)

const (
	// scarce sets the least memory that has to be available: 1/scarce of the machine's memory. With
	// less, the kernel is about to kill processes of any owner.
	scarce = 50
	// tight sets the available memory below which stalls count: 1/tight of the machine's memory.
	// stalled is the share of time, in percent, that all processes may stall. With more memory
	// available, stalls come from a job near its own limit.
	tight   = 10
	stalled = 10.0
)

// Machine is a machine's memory and the pressure on it.
type Machine struct {
	// Total and Available are in bytes; a Total of 0 means unknown.
	Total, Available int64
	// Stalled is the share of the last ten seconds, in percent, in which all processes of the group
	// or machine that `Of` names waited for memory; 0 if the kernel does not report it.
	Stalled float64
	Of      string
	// Group says that Total and Available are those of the control group of the agent and its
	// jobs, which is under pressure and has less memory left than the machine.
	Group bool
}

// Pressure says why the machine is short of memory; empty if it is not.
func (m Machine) Pressure() string {
	who := ofMachine
	if m.Group {
		who = ofGroup
	}
	switch {
	case m.Total <= 0:
		return ""
	case m.Available < m.Total/scarce:
		return fmt.Sprintf("%s has %s of %s memory available", who, mebibytes(m.Available), mebibytes(m.Total))
	case m.Stalled >= stalled && m.Available < m.Total/tight:
		return fmt.Sprintf("processes of %s stalled on memory for %.0f %% of the last 10 seconds, with %s of %s available",
			m.Of, m.Stalled, mebibytes(m.Available), mebibytes(m.Total))
	}
	return ""
}

const (
	ofMachine = "the machine"
	ofGroup   = "the node's control group"
)

// pressureSource is the file with the memory pressure.
type pressureSource struct {
	// root is "/" except in tests. file is empty if the kernel does not report pressure.
	root, file string
	// `of` names the processes whose pressure is measured. `why` says why they are not only the
	// processes of the node's control group; nil if they are.
	of  string
	why error
}

// findPressure finds the control group's own pressure, or else that of the whole machine.
func findPressure(root string) pressureSource {
	s := pressureSource{root: root, of: ofGroup}
	if s.file, s.why = cgroup.PressureFile(root); s.why == nil {
		return s
	}
	s.file, s.of = filepath.Join(root, "proc/pressure/memory"), ofMachine
	// The kernel has no pressure stall information, or it is switched off.
	if _, err := os.ReadFile(s.file); errors.Is(err, fs.ErrNotExist) || errors.Is(err, errors.ErrUnsupported) {
		s.file = ""
	}
	return s
}

// tell logs which source is used.
func (s *pressureSource) tell(log *slog.Logger, node string) {
	switch {
	case s.file == "":
		log.Info("no memory pressure information from the kernel; using free memory only", "node", node, "cause", s.why)
	case s.of == ofMachine:
		log.Info("using memory pressure of the whole machine", "node", node, "file", s.file, "cause", s.why)
	default:
		log.Info("using memory pressure of the node's control group", "node", node, "file", s.file)
	}
}

// measure reads memory and pressure from the kernel.
func (s *pressureSource) measure() (Machine, error) {
	var m Machine
	data, err := os.ReadFile(filepath.Join(s.root, "proc/meminfo"))
	if err == nil {
		m, err = parseMeminfo(data)
	}
	if err != nil {
		return Machine{}, fmt.Errorf("measure memory of the machine: %w", err)
	}
	if s.file == "" {
		return m, nil
	}
	if data, err = os.ReadFile(s.file); err == nil {
		m.Of = s.of
		m.Stalled, err = parsePressure(data)
	}
	if err != nil {
		return Machine{}, fmt.Errorf("measure pressure of %s: %w", s.of, err)
	}
	if s.of == ofMachine || m.Stalled < stalled {
		return m, nil
	}
	// The group may be short of memory while the machine is not.
	room, err := cgroup.MemoryRoom(s.root)
	if err != nil {
		return Machine{}, fmt.Errorf("measure pressure of %s: %w", s.of, err)
	}
	if room.Limit > 0 && float64(room.Left)/float64(room.Limit) < float64(m.Available)/float64(m.Total) {
		m.Total, m.Available, m.Group = room.Limit, room.Left, true
	}
	return m, nil
}

// parseMeminfo reads /proc/meminfo.
func parseMeminfo(data []byte) (Machine, error) {
	sizes, err := proctree.Sizes(data)
	if err != nil {
		return Machine{}, err
	}
	for _, name := range []string{"MemTotal", "MemAvailable"} {
		if _, has := sizes[name]; !has {
			return Machine{}, fmt.Errorf("no line %s", name)
		}
	}
	return Machine{Total: sizes["MemTotal"], Available: sizes["MemAvailable"]}, nil
}

// parsePressure returns the ten-second average of the line "full" of a pressure file.
func parsePressure(data []byte) (float64, error) {
	for line := range bytes.Lines(data) {
		fields := bytes.Fields(line)
		if len(fields) < 2 || string(fields[0]) != "full" {
			continue
		}
		text, found := bytes.CutPrefix(fields[1], []byte("avg10="))
		share, err := strconv.ParseFloat(string(text), 64)
		if !found || err != nil || !(share >= 0 && share <= 100) {
			return 0, fmt.Errorf("%.60q is not a pressure value", line)
		}
		return share, nil
	}
	return 0, errors.New("no line full")
}
