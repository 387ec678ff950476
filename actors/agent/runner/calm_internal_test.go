package runner

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"weir/actors/agent/runner/proxyproto"
	"weir/cluster/clock"
)

// calmJob is a job whose proxy is this test, with groups that are folders.
func calmJob(t *testing.T) (r *Runner, job *Job, proxy *net.UnixConn) {
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	r = &Runner{config: Config{Logger: slog.New(slog.DiscardHandler), SamplePeriod: time.Millisecond}, jobs: map[string]*Job{}}
	if r.shared = shareLease(r.config.Logger); r.shared == nil {
		t.Skip("the kernel cannot seal memory")
	}
	r.config.Cgroups.Node = proxyproto.Placement{Unified: t.TempDir()}
	job = newJob(r, "job")
	r.jobs["job"], job.renewsUntil, job.shares = job, true, true
	job.place = proxyproto.Placement{Unified: filepath.Join(r.config.Cgroups.Node.Unified, "job")}
	if err := os.Mkdir(job.place.Unified, 0o700); err != nil {
		t.Fatal(err)
	}
	if job.conn, err = net.DialUnix("unix", nil, listener.Addr().(*net.UnixAddr)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(job.disconnect)
	if proxy, err = listener.AcceptUnix(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	return r, job, proxy
}

// TestSharedLease: once a proxy has the shared lease, to renew it takes no message; a proxy that does not know it gets
// one each time.
func TestSharedLease(t *testing.T) {
	r, job, proxy := calmJob(t)
	first, second := clock.Boot()+time.Hour, clock.Boot()+2*time.Hour
	r.RenewAll(first)
	line, control := make([]byte, 1<<10), make([]byte, 1<<10)
	n, length, _, _, err := proxy.ReadMsgUnix(line, control)
	if err != nil {
		t.Fatal(err)
	}
	message, err := proxyproto.Parse(line[:n-1])
	if err != nil || message.Renew == nil || !message.Renew.Shared || message.Renew.EndMillis != first.Milliseconds() || message.Descriptors() != 1 {
		t.Fatalf("told %s, %v, want the lease and a file", line[:n], err)
	}
	given, err := unix.ParseSocketControlMessage(control[:length])
	if err != nil {
		t.Fatal(err)
	}
	descriptors, err := unix.ParseUnixRights(&given[0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(descriptors[0]) }()
	memory, err := unix.Mmap(descriptors[0], 0, proxyproto.SharedSize, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(memory) }()
	if _, err := unix.Write(descriptors[0], make([]byte, proxyproto.SharedSize)); !errors.Is(err, unix.EPERM) {
		t.Errorf("who has the file writes to it: %v", err)
	}
	if err := unix.Ftruncate(descriptors[0], 0); !errors.Is(err, unix.EPERM) {
		t.Errorf("who has the file shortens it: %v", err)
	}
	r.RenewAll(second)
	if end := *(*int64)(unsafe.Pointer(&memory[0])); end != int64(second) {
		t.Errorf("the proxy reads that the lease ends at %d, want %d", end, second)
	}
	job.shares, job.follows = false, false
	r.RenewAll(second)
	message, err = proxyproto.NewReader(proxy).Read()
	if err != nil || message.Renew == nil || message.Renew.Shared {
		t.Errorf("an older proxy is told %+v, %v, want the lease alone, and nothing before", message, err)
	}
}

// TestSharedLeaseAfterAReconnect: a new connection gets it again.
func TestSharedLeaseAfterAReconnect(t *testing.T) {
	r, job, _ := calmJob(t)
	r.RenewAll(clock.Boot() + time.Hour)
	if !job.follows {
		t.Fatal("the proxy has no shared lease")
	}
	if job.disconnect(); job.follows {
		t.Error("a proxy without a connection follows the lease")
	}
	if r.RenewAll(clock.Boot() + time.Hour); job.follows {
		t.Error("a proxy that was not told follows the lease")
	}
}

// TestMeasureGrown asks the proxy of a job at rest whose memory has changed, and no other.
func TestMeasureGrown(t *testing.T) {
	r, job, proxy := calmJob(t)
	charge := func(node, jobs int64) {
		for folder, bytes := range map[string]int64{r.config.Cgroups.Node.Unified: node, job.place.Unified: jobs} {
			if err := os.WriteFile(filepath.Join(folder, "memory.current"), []byte(strconv.FormatInt(bytes, 10)+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r.MeasureGrown()
	}
	answer := func() {
		job.tellSample(&proxyproto.Sample{})
		job.sampled = time.Time{}
	}
	job.follows = true
	charge(100<<20, 10<<20) // not known before
	charge(100<<20, 20<<20) // the node's is looked at first
	charge(101<<20, 10<<20) // another job's
	for range growthTurns {
		charge(101<<20, 11<<20) // what another one has lost
	}
	if !job.asked {
		t.Error("a job that gets what another one loses is not measured")
	}
	charge(600<<20, 60<<20) // it has not answered
	answer()
	job.sampled = time.Now().Add(time.Hour)
	charge(102<<20, 12<<20) // it is measured in each period
	job.sampled = time.Time{}
	charge(103<<20, 11<<20+1<<19) // too little
	for i, grown := range []int64{13 << 20, 5 << 20} {
		charge(int64(200*(i+1))<<20, grown)
		answer()
	}
	job.follows = false
	charge(900<<20, 100<<20)
	if err := job.tell(proxyproto.Message{Stop: &proxyproto.Stop{Reason: "enough"}}); err != nil {
		t.Fatal(err)
	}
	reader := proxyproto.NewReader(proxy)
	for _, want := range []string{"measure", "measure", "measure", "stop"} {
		if message, err := reader.Read(); err != nil || message.Name() != want {
			t.Errorf("told %s, %v, want %s", message.Name(), err, want)
		}
	}
}

// TestSharedLeaseIsRefused: a proxy that cannot read it is sent each renewal.
func TestSharedLeaseIsRefused(t *testing.T) {
	r, job, proxy := calmJob(t)
	r.RenewAll(clock.Boot() + time.Hour)
	reader := proxyproto.NewReader(proxy)
	refused, err := (&proxyproto.Message{Error: &proxyproto.Error{Message: "renew", Error: "no memory"}}).Line()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := proxy.Write(refused); err != nil {
		t.Fatal(err)
	}
	if err := proxy.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if result, err := job.listenOn(); result != nil || err == nil {
		t.Fatalf("heard %+v, %v", result, err)
	}
	r.RenewAll(clock.Boot() + time.Hour)
	for _, shared := range []bool{true, false} {
		if message, err := reader.Read(); err != nil || message.Renew == nil || message.Renew.Shared != shared {
			t.Errorf("told %+v, %v, want a renewal, shared: %v", message, err, shared)
		}
	}
}
