package spec_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"weir/api/spec"
	"weir/scheduling/option"
	"weir/scheduling/pooltree"
)

var rewrite = flag.Bool("rewrite", false, "write docs/options.md from the declarations of options")

// TestOptionsPage holds docs/options.md to the declarations of options.
func TestOptionsPage(t *testing.T) {
	const name = "../../docs/options.md"
	want := page()
	if *rewrite {
		if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not what the options say: go test ./api/spec -run TestOptionsPage -rewrite", name)
	}
	for _, of := range []any{spec.VanillaOperation{}, spec.MapOperation{}, pooltree.PoolOptions{}, pooltree.TreeOptions{}} {
		for _, f := range option.Table(of) {
			if f.Help == "" {
				t.Errorf("option %s of %T says nothing of what it does", f.Path, of)
			}
		}
	}
}

func page() string {
	var b strings.Builder
	b.WriteString(`# Options

Made from the declarations of the options by ` + "`go test ./api/spec -run TestOptionsPage -rewrite`" + `. What they mean together is in [operations.md](operations.md)
and [pools.md](pools.md); the last column names the section of [fairshare.md](fairshare.md) (F) or [jobs.md](jobs.md) (J) that has the rule. In names ` + "`-` and `_`" + ` are the same.
Times and sizes are written with a unit, such as 90s, 1h30m or 512MiB. Resources are an object such as ` + "`{cpu: 10, memory: 4GiB}`" + `. A ` + "`*`" + ` in a name stands for each of a list, or for a name that people choose.
`)
	inherited := map[string]bool{}
	for _, f := range option.Table(pooltree.OperationOptions{}) {
		inherited[f.Path] = true
	}
	section := func(title, about string, of any, leave func(option.Field) bool) {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| option | value | default | what it does | rule |\n|---|---|---|---|---|\n", title, about)
		for _, f := range option.Table(of) {
			if leave == nil || !leave(f) {
				b.WriteString(row(f))
			}
		}
	}
	inTree := func(f option.Field) bool {
		return inherited[f.Path] || strings.HasPrefix(f.Path, "scheduling_options_per_pool_tree/")
	}
	own := map[string]bool{}
	for _, f := range option.Table(spec.VanillaOperation{}) {
		own[f.Path] = true
	}
	section("Of a pool tree", "`weir tree set`, `options` of a pool file.", pooltree.TreeOptions{}, nil)
	section("Of a pool", "`weir pool set`, a pool of a pool file.", pooltree.PoolOptions{}, nil)
	section("Of an operation in a pool tree", "`weir op update`; in a spec at its top, and below `scheduling_options_per_pool_tree`.", pooltree.OperationOptions{}, nil)
	section("Of an operation", "At the top of a spec, with the options of an operation in a pool tree. Those of tasks are below `tasks`.", spec.VanillaOperation{}, inTree)
	section("Of an operation of type map", "Instead of `tasks`. A `mapper` has the options of a task, but for `job_count`, `restart_completed_jobs`, `restart_exit_code`, `output_paths`, `readiness`, `max_surge`, `min_available` and `gang_options`.",
		spec.MapOperation{}, func(f option.Field) bool { return inTree(f) || own[f.Path] || strings.HasPrefix(f.Path, "mapper/") })
	return b.String()
}

// row is an option in a table.
func row(f option.Field) string {
	name := "`" + f.Path + "`"
	for _, alias := range f.Aliases {
		name += ", `" + alias + "`"
	}
	help := f.Help
	if f.Required != "" {
		help += "; required"
	}
	if f.Inherit != "" {
		help += " (" + f.Inherit + ")"
	}
	missing := ""
	if f.Default != "" {
		missing = "`" + f.Default + "`"
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s |\n", name, value(f), missing, strings.ReplaceAll(help, "|", "\\|"), f.Rule)
}

// value says what a value of an option is.
func value(f option.Field) string {
	if f.Values != nil {
		about := "`" + strings.Join(f.Values, "`, `") + "`"
		if f.Kind == "list" {
			return "list of " + about
		}
		return about
	}
	about := f.Kind
	switch {
	case f.Above != "" && f.Max != "":
		about += fmt.Sprintf(" above %s, at most %s", f.Above, f.Max)
	case f.Above != "":
		about += " above " + f.Above
	case f.Min != "" && f.Max != "":
		about += fmt.Sprintf(" from %s to %s", f.Min, f.Max)
	case f.Min != "":
		about += ", at least " + f.Min
	case f.Max != "":
		about += ", at most " + f.Max
	}
	if f.Unit != "" {
		about += " " + f.Unit
	}
	return about
}
