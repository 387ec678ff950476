// Package poll waits for a time, or for something that is checked periodically.
package poll

import (
	"context"
	"time"
)

// Pause waits for d. It returns the cause if ctx is done first.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// Every calls step at once and then every period, until step returns last or an error. It returns
// the cause if ctx is done first.
func Every(ctx context.Context, period time.Duration, step func() (last bool, err error)) error {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		if last, err := step(); last || err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
