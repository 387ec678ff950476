package poll

import (
	"context"
	"errors"
	"testing"
	"time"
)

var errEnough = errors.New("enough")

// ended is a context that has ended for a cause.
func ended() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errEnough)
	return ctx
}

func TestPause(t *testing.T) {
	if err := Pause(t.Context(), time.Nanosecond); err != nil {
		t.Errorf("a pause: %v", err)
	}
	if err := Pause(ended(), time.Hour); !errors.Is(err, errEnough) {
		t.Errorf("a pause that is cut short: %v, want the cause", err)
	}
}

func TestEvery(t *testing.T) {
	errStep := errors.New("no such node")
	for name, test := range map[string]struct {
		ctx       context.Context
		period    time.Duration
		last      int
		err       error
		want      error
		wantSteps int
	}{
		"done at once":           {t.Context(), time.Hour, 1, nil, nil, 1},
		"done later":             {t.Context(), time.Nanosecond, 3, nil, nil, 3},
		"a step fails":           {t.Context(), time.Hour, 0, errStep, errStep, 1},
		"no time from the start": {ended(), time.Hour, 0, nil, errEnough, 1},
	} {
		t.Run(name, func(t *testing.T) {
			steps := 0
			err := Every(test.ctx, test.period, func() (bool, error) {
				steps++
				return steps == test.last, test.err
			})
			if !errors.Is(err, test.want) || steps != test.wantSteps {
				t.Errorf("%v after %d steps, want %v after %d", err, steps, test.want, test.wantSteps)
			}
		})
	}
}
