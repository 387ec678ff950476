// Package examples holds descriptions of operations, pools and clusters to try.
package examples

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/api/poolfile"
	"weir/api/spec"
)

func TestExamplesAreValidAndListed(t *testing.T) {
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(file, func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			switch file {
			case "pools.yaml":
				_, err = poolfile.Read(data)
			case "cluster.yaml":
				_, err = poolfile.ReadCluster(data)
			default:
				var doc *spec.Document
				if doc, err = spec.Read(data); err == nil {
					_, _, err = doc.Check()
				}
			}
			if err != nil {
				t.Error(err)
			}
			if !strings.Contains(string(page), "`"+file+"`") {
				t.Errorf("README.md does not list it")
			}
		})
	}
}

// TestWordcountIsTheOneThatRuns keeps the example and weir dev wordcount the same.
func TestWordcountIsTheOneThatRuns(t *testing.T) {
	script, err := os.ReadFile(filepath.Join("..", "cmd", "weir", "internal", "wordcount", "count.sh"))
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("wordcount.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(script)) {
		if !strings.Contains(string(example), strings.Repeat(" ", 6)+line) {
			t.Errorf("wordcount.yaml has not the line %q", line)
		}
	}
}
