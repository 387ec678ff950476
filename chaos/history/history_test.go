package history

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestStreamsSurviveTheirWriter(t *testing.T) {
	dir := t.TempDir()
	w, err := Create(filepath.Join(dir, WitnessFile))
	if err != nil {
		t.Fatal(err)
	}
	first := Sight{What: Begin, Operation: "o", Task: "t", Cookie: 3, Job: "j", Pid: 7, At: Now()}
	for _, s := range []Sight{first, {What: Tick, At: Now()}} {
		if err := w.Write(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	// A writer that was killed in the middle of a line.
	file, err := os.OpenFile(filepath.Join(dir, WitnessFile), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(`{"what":"e`); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	run, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(run.Sights) != 2 || run.Sights[0] != first || run.Sights[1].At < first.At {
		t.Errorf("sights: %+v", run.Sights)
	}
}

func TestDamagedLinesAreNamed(t *testing.T) {
	_, err := Read[Sight](strings.NewReader("{}\n{\"pid\":\"x\"}\n{}\n"))
	if err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("read: %v", err)
	}
}

func TestWriteAfterCloseIsAnError(t *testing.T) {
	w, err := Create(filepath.Join(t.TempDir(), "x"))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Write(Act{}); err == nil {
		t.Error("a closed stream was written to")
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("{\"what\":\"begin\",\"cookie\":1}\n"))
	f.Add([]byte("{}\n{"))
	f.Add([]byte("null\n[]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := Read[Sight](strings.NewReader(string(data)))
		if lines := strings.Count(string(data), "\n"); err == nil && len(list) != lines {
			t.Errorf("%d items of %d whole lines", len(list), lines)
		}
	})
}
