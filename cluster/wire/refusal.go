package wire

import (
	"log/slog"
	"net"
	"sync"
	"time"
)

// refusalLog logs refused connections, but no more than a few a second:
// whoever reaches the port can cause as many as they like.
type refusalLog struct {
	logger *slog.Logger
	state  *refusalState
}

type refusalState struct {
	mu         sync.Mutex
	second     time.Time
	logged     int
	suppressed int
}

// refusalsASecond bounds the lines that refused connections may cause.
const refusalsASecond = 5

func newRefusalLog(logger *slog.Logger) refusalLog {
	return refusalLog{logger: logger, state: &refusalState{}}
}

func (l refusalLog) refused(peer net.Addr, stage string, cause error) {
	allowed, suppressed := l.state.take(time.Now())
	if !allowed {
		return
	}
	attributes := []any{"stage", stage, "cause", cause}
	if peer != nil {
		attributes = append(attributes, "peer", peer.String())
	}
	if suppressed > 0 {
		attributes = append(attributes, "unlogged_before", suppressed)
	}
	l.logger.Warn("connection refused", attributes...)
}

// take returns whether a line may be logged at now, and how many were not
// since the last one.
func (s *refusalState) take(now time.Time) (allowed bool, suppressed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.second) >= time.Second {
		s.second, s.logged = now, 0
	}
	if s.logged == refusalsASecond {
		s.suppressed++
		return false, 0
	}
	s.logged++
	suppressed, s.suppressed = s.suppressed, 0
	return true, suppressed
}
