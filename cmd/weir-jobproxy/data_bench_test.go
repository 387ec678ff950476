package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/actors/agent/runner/proxyproto"
	"weir/scheduling/records"
)

// benchBytes is how much is read in one round.
const benchBytes = 128 << 20

// benchInput makes a file of lines of about 60 bytes.
func benchInput(b *testing.B) proxyproto.FeedPart {
	b.Helper()
	path := filepath.Join(b.TempDir(), "input")
	file, err := os.Create(path)
	must(b, err)
	w := bufio.NewWriterSize(file, 1<<20)
	for n := 0; n < benchBytes; {
		length, err := fmt.Fprintf(w, "%d: the quick brown fox jumps over the lazy dog, %x times\n", n, n*2654435761)
		must(b, err)
		n += length
	}
	must(b, w.Flush())
	must(b, file.Close())
	info, err := os.Stat(path)
	must(b, err)
	return listed(b, path, 0, info.Size())
}

// benchRounds is how often each is run: the fastest counts, as others use the machine.
const benchRounds = 3

// BenchmarkMap feeds commands and keeps their output, and runs the same in a pipe of the
// shell, which is told to bring its output to disk too, in turns.
func BenchmarkMap(b *testing.B) {
	part := benchInput(b)
	for _, command := range []string{"wc -l", "cat", "tr a-z A-Z", "grep -F 7", "md5sum", "sort"} {
		b.Run(strings.Fields(command)[0], func(b *testing.B) {
			folder := b.TempDir()
			fedFor, pipedFor := time.Hour, time.Hour
			for b.Loop() {
				for range benchRounds {
					begun := time.Now()
					result := runJob(b, command, fed(filepath.Join(folder, "part"), records.Lines, part))
					fedFor = min(fedFor, time.Since(begun))
					if result.Outcome != proxyproto.OutcomeExited || result.Input.Bytes != part.Size {
						b.Fatalf("result %+v", result)
					}
					begun = time.Now()
					piped := filepath.Join(folder, "piped")
					if out, err := exec.Command("/bin/sh", "-c", fmt.Sprintf("cat '%s' | %s > '%s' && sync '%s'", part.Path, command, piped, piped)).CombinedOutput(); err != nil {
						b.Fatalf("%v: %s", err, out)
					}
					pipedFor = min(pipedFor, time.Since(begun))
				}
			}
			b.ReportMetric(float64(part.Size)/1e6/fedFor.Seconds(), "fed-MB/s")
			b.ReportMetric(float64(part.Size)/1e6/pipedFor.Seconds(), "pipe-MB/s")
			b.ReportMetric(pipedFor.Seconds()/fedFor.Seconds(), "ratio")
		})
	}
}

// BenchmarkResidentSize shows what a proxy takes of the memory beside a job that waits,
// with and without a feed: in all, and of its own, which is not the program's file.
func BenchmarkResidentSize(b *testing.B) {
	program := filepath.Join(b.TempDir(), "weir-jobproxy")
	build := exec.Command("go", "build", "-buildvcs=false", "-trimpath", "-ldflags", "-s -w", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	b.Setenv(programVariable, program)
	part := benchInput(b)
	for name, change := range map[string]func(*proxyproto.Spec){
		"alone": func(*proxyproto.Spec) {},
		"fed":   fed(filepath.Join(b.TempDir(), "part"), records.Lines, part),
	} {
		b.Run(name, func(b *testing.B) {
			all, own := 0.0, 0.0
			for b.Loop() {
				p := startProxy(b, "head -c 100000000 | cat; echo > ready; sleep 1000", time.Hour, change)
				awaitReady(b, filepath.Join(p.folder, "ready"))
				all += resident(b, p.Process.Pid, "VmRSS")
				own += resident(b, p.Process.Pid, "RssAnon")
				a := p.connect(b)
				a.say(b, `{"stop":{"reason":"enough","grace_millis":0}}`)
				a.hear(b, "exited")
				a.say(b, `{"release":{}}`)
			}
			b.ReportMetric(all/float64(b.N)/1024, "MiB")
			b.ReportMetric(own/float64(b.N)/1024, "own-MiB")
		})
	}
}

func awaitReady(b *testing.B, path string) {
	b.Helper()
	for deadline := time.Now().Add(patience); ; {
		if _, err := os.Stat(path); err == nil {
			return
		}
		if time.Now().After(deadline) {
			b.Fatalf("there is no %s", path)
		}
		<-time.After(time.Millisecond)
	}
}

// resident is one of the sizes of a process in KiB.
func resident(b *testing.B, pid int, name string) float64 {
	b.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must(b, err)
	_, rest, _ := strings.Cut(string(status), name+":")
	size, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
	must(b, err)
	return size
}
