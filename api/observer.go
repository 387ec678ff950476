package api

import (
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/reflect/protoreflect"

	"weir/messages/apipb"
)

// observe reports a call that has ended to Config.Observe.
func (s *server) observe(procedure string, err error, began time.Time) {
	if s.cfg.Observe == nil {
		return
	}
	if _, known := s.procedures[procedure]; !known {
		procedure = "unknown"
	}
	code := "ok"
	if err != nil {
		code = connect.CodeOf(err).String()
	}
	s.cfg.Observe(procedure, code, time.Since(began))
}

// procedure is what is known of a call.
type procedure struct {
	// streams says that it answers with a stream.
	streams bool
	input   protoreflect.MessageDescriptor
}

// knownProcedures returns the procedures of all services.
func knownProcedures() map[string]procedure {
	all := map[string]procedure{}
	for _, file := range []protoreflect.FileDescriptor{apipb.File_apipb_api_proto, apipb.File_apipb_events_proto, apipb.File_apipb_explain_proto} {
		services := file.Services()
		for i := range services.Len() {
			methods := services.Get(i).Methods()
			for j := range methods.Len() {
				method := methods.Get(j)
				all["/"+string(services.Get(i).FullName())+"/"+string(method.Name())] = procedure{method.IsStreamingServer(), method.Input()}
			}
		}
	}
	return all
}

// recentCount counts events of the last minute, by the second. The zero value is ready
// to use.
type recentCount struct {
	mu      sync.Mutex
	seconds [60]int64
	counts  [60]int64
}

func (c *recentCount) add(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	second := now.Unix()
	i := second % int64(len(c.seconds))
	if c.seconds[i] != second {
		c.seconds[i], c.counts[i] = second, 0
	}
	c.counts[i]++
}

func (c *recentCount) since(now time.Time) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	var sum int64
	for i, second := range c.seconds {
		if second > now.Unix()-int64(len(c.seconds)) {
			sum += c.counts[i]
		}
	}
	return sum
}

// refusedSubjects counts refused calls, and the subjects that were refused in the last minute. The zero
// value is ready to use.
type refusedSubjects struct {
	mu    sync.Mutex
	calls uint64
	last  map[subject]time.Time
}

func (r *refusedSubjects) add(of subject, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		r.last = map[subject]time.Time{}
	}
	r.calls++
	r.last[of] = now
}

func (r *refusedSubjects) count(now time.Time) (calls uint64, subjects int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for of, last := range r.last {
		if now.Sub(last) >= time.Minute {
			delete(r.last, of)
		}
	}
	return r.calls, len(r.last)
}
