package clock

import (
	"testing"
	"time"
)

func TestTimer(t *testing.T) {
	fired := make(chan struct{}, 10)
	timer := NewTimer(func() { fired <- struct{}{} })
	select {
	case <-fired:
		t.Fatal("it fires before it is set")
	default:
	}
	for _, d := range []time.Duration{20 * time.Millisecond, 0, -time.Hour} {
		begin := Boot()
		timer.Reset(time.Hour)
		timer.Reset(d)
		<-fired
		if took := Boot() - begin; took < d {
			t.Errorf("it fires after %v, not %v", took, d)
		}
	}
	timer.Reset(time.Hour)
	if err := timer.Close(); err != nil {
		t.Error(err)
	}
	if err := timer.Close(); err == nil {
		t.Error("closed twice")
	}
}
