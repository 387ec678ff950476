package wire

import (
	"log/slog"
	"net"
	"sync"
	"time"
)

// refusalLog logs refused connections, but only a few a second: anyone who
// reaches the port can cause any number of them.
type refusalLog struct {
	logger *slog.Logger

	mu         sync.Mutex
	second     time.Time
	logged     int
	suppressed int
}

// refusalsASecond is how many refused connections are logged a second.
const refusalsASecond = 5

func (l *refusalLog) refused(peer net.Addr, stage string, cause error, more ...any) {
	allowed, suppressed := l.take(time.Now())
	if !allowed {
		return
	}
	attributes := append([]any{"stage", stage, "cause", cause}, more...)
	if peer != nil {
		attributes = append(attributes, "peer", peer.String())
	}
	if suppressed > 0 {
		attributes = append(attributes, "unlogged_before", suppressed)
	}
	l.logger.Warn("connection refused", attributes...)
}

// take returns whether a line may be logged at the time `now`, and how many lines were suppressed
// since the last logged one.
func (l *refusalLog) take(now time.Time) (allowed bool, suppressed int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.second) >= time.Second {
		l.second, l.logged = now, 0
	}
	if l.logged == refusalsASecond {
		l.suppressed++
		return false, 0
	}
	l.logged++
	suppressed, l.suppressed = l.suppressed, 0
	return true, suppressed
}
