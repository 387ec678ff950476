package simulate

import (
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"weir/scheduling/resource"
)

// series is the samples of the cluster and its pools.
type series struct {
	pools   []*account
	samples []sample
}

// sample is one moment.
type sample struct {
	at               time.Duration
	running, pending int64
	used             resource.Amounts
	preempted        int64
	pools            []poolSample
}

// poolSample is a pool at one moment: shares of its dominant resource.
type poolSample struct {
	usage, fair, demand float64
	cpu                 resource.Hundredths
	volume              float64
}

func (s *series) sample(w *world) {
	m := w.meter
	now := sample{at: w.now, running: m.jobs.Running, pending: m.jobs.Pending, used: m.root.usage, pools: make([]poolSample, 0, len(s.pools))}
	for _, count := range m.preempted {
		now.preempted += count
	}
	for _, a := range m.ordered[1:] {
		now.pools = append(now.pools, poolSample{
			usage: resource.MaxRatio(a.usage, m.total), fair: a.fair, demand: resource.MaxRatio(a.demand.Min(m.total), m.total), cpu: a.usage.CPU, volume: a.volume,
		})
	}
	s.samples = append(s.samples, now)
}

// WriteCSV writes the series of a result to cluster.csv, pools.csv and days.csv in a folder,
// which it creates. File names of the control run begin with control-.
func (r *Result) WriteCSV(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("write series: %w", err)
	}
	return r.each(func(prefix string, r *Result) error {
		for name, rows := range map[string]func(func(...any)){"cluster": r.clusterRows, "pools": r.poolRows, "days": r.dayRows} {
			if err := writeRows(filepath.Join(dir, prefix+name+".csv"), rows); err != nil {
				return err
			}
		}
		return nil
	})
}

// each calls `do` with a result, and with the result of its control run if there is one.
func (r *Result) each(do func(prefix string, r *Result) error) error {
	if err := do("", r); err != nil || r.Control == nil {
		return err
	}
	return do("control-", r.Control)
}

// writeRows writes rows of numbers and texts to a file.
func writeRows(name string, rows func(func(...any))) error {
	file, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("write series: %w", err)
	}
	w := csv.NewWriter(file)
	rows(func(values ...any) {
		row := make([]string, len(values))
		for i, value := range values {
			row[i] = fmt.Sprint(value)
			if number, ok := value.(float64); ok {
				row[i] = strconv.FormatFloat(number, 'g', 9, 64)
			}
		}
		// w.Error reports the error below.
		_ = w.Write(row)
	})
	w.Flush()
	if err := errors.Join(w.Error(), file.Close()); err != nil {
		return fmt.Errorf("write series: %w", err)
	}
	return nil
}

func (r *Result) clusterRows(row func(...any)) {
	row("time_seconds", "cpu_used", "cpu_total", "memory_used", "memory_total", "running_jobs", "pending_jobs", "preempted_jobs")
	for _, s := range r.series.samples {
		row(s.at.Seconds(), s.used.CPU.Cores(), r.Total.CPU.Cores(), s.used.Memory, r.Total.Memory, s.running, s.pending, s.preempted)
	}
}

func (r *Result) poolRows(row func(...any)) {
	row("time_seconds", "pool", "usage_share", "fair_share", "demand_share", "cpu_used", "volume_seconds")
	for _, s := range r.series.samples {
		for i, p := range s.pools {
			row(s.at.Seconds(), r.series.pools[i].name, p.usage, p.fair, p.demand, p.cpu.Cores(), p.volume)
		}
	}
}

func (r *Result) dayRows(row func(...any)) {
	row("day", "pool", "demand_cpu_seconds", "usage_cpu_seconds")
	for _, d := range r.Days {
		for _, p := range d.Pools {
			row(d.Day, p.Pool, p.DemandCPUSeconds, p.UsageCPUSeconds)
		}
	}
}
