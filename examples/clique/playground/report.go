package playground

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"weir/cmd/chart"
	"weir/examples/clique/load"
)

// ErrBroken is returned by examples when what they show did not happen.
var ErrBroken = errors.New("what was promised does not hold")

// Outcome is what is shown of a run.
type Outcome struct {
	// Name is that of the run, Picture that of its files.
	Name, Picture string
	Chart         chart.Chart
	// Cut are the requests that failed and should not have.
	Cut []load.Cut
}

// Report prints tables, what went wrong in runs, their pictures, which show something, what was
// promised and does not hold, and the summary last. It returns ErrBroken when something does not.
func (c Config) Report(tables [2]string, runs []Outcome, shows string, faults []string, summary string) error {
	fmt.Fprintf(c.Out, "\n%s\n%s\n", tables[0], tables[1])
	if err := os.MkdirAll(c.Pictures, 0o755); err != nil {
		return fmt.Errorf("draw %s: %w", shows, err)
	}
	for _, r := range runs {
		base := filepath.Join(c.Pictures, r.Picture)
		if err := r.Chart.Save(base); err != nil {
			return err
		}
		for _, line := range r.failures() {
			fmt.Fprintln(c.Out, line)
		}
		fmt.Fprintf(c.Out, "%s: %s: %s.svg %s.png\n", r.Name, shows, base, base)
	}
	for _, fault := range faults {
		fmt.Fprintln(c.Out, "WRONG:", fault)
	}
	fmt.Fprintln(c.Out, summary)
	if len(faults) > 0 {
		return ErrBroken
	}
	return nil
}

// failures lists what went wrong, one line each.
func (o Outcome) failures() (lines []string) {
	found := map[string]int{}
	for _, cut := range o.Cut {
		found[cut.What]++
	}
	for _, what := range slices.Sorted(maps.Keys(found)) {
		lines = append(lines, fmt.Sprintf("%s: %d x %s", o.Name, found[what], what))
	}
	return lines
}

// Table draws a table. The first columns are names, and others numbers. A row of nothing parts
// those before it from those after it.
func Table(header table.Row, names int, rows ...table.Row) string {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.AppendHeader(header)
	var columns []table.ColumnConfig
	for i := names; i < len(header); i++ {
		columns = append(columns, table.ColumnConfig{Number: i + 1, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	t.SetColumnConfigs(columns)
	for _, row := range rows {
		if row == nil {
			t.AppendSeparator()
		} else {
			t.AppendRow(row)
		}
	}
	return t.Render()
}
