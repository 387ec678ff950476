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

// ErrBroken is returned by an example that did not show what it should.
var ErrBroken = errors.New("a promise was broken")

// Outcome is the part of a run that the report shows.
type Outcome struct {
	// Name names the run; Picture names its files.
	Name, Picture string
	Chart         chart.Chart
	// Cut are the requests that failed and should not have.
	Cut []load.Cut
}

// Report prints the tables, the failures of each run and its pictures, then the faults, and the
// summary last. shows says what the pictures show. It returns ErrBroken if there are faults.
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

// failures lists the causes of failed requests, one line each.
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

// Table draws a table. The first columns are names, the rest numbers. A nil row is a separator.
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
