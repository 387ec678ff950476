package readiness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"weir/messages/statepb"
)

// quickPeriod is the period of probes after a failed one, if the task's period is longer: others
// wait for the instance.
const quickPeriod = 100 * time.Millisecond

// Place is where an instance is probed.
type Place struct {
	// Host and Ports are where others reach the instance.
	Host  string
	Ports []int32
	// Exec runs a program within the job and returns nil if that exits with 0 in time.
	Exec func(ctx context.Context, argv []string, timeout time.Duration) error
}

// probe probes an instance once. It returns nil if the instance is ready.
func probe(ctx context.Context, task *statepb.Readiness, at Place) error {
	timeout := task.GetTimeout().AsDuration()
	if len(task.GetExec()) > 0 {
		return at.Exec(ctx, task.GetExec(), timeout)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if int(task.GetPort()) >= len(at.Ports) {
		return fmt.Errorf("no port %d", task.GetPort())
	}
	address := net.JoinHostPort(at.Host, strconv.Itoa(int(at.Ports[task.GetPort()])))
	if task.GetTcp() {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	}
	return get(ctx, "http://"+address+task.GetHttpPath())
}

// prober sends HTTP probes, each on a connection of its own, like a new client.
var prober = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true, Proxy: nil},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

func get(ctx context.Context, address string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	request.Header.Set("User-Agent", "weir-readiness")
	response, err := prober.Do(request)
	if failed := new(url.Error); errors.As(err, &failed) {
		// Omit the URL, which everybody knows.
		return failed.Err
	}
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxReason))
	if response.StatusCode >= http.StatusOK && response.StatusCode < http.StatusBadRequest {
		return nil
	}
	return fmt.Errorf("%s %s", response.Status, text)
}
