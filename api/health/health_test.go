package health

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestReady(t *testing.T) {
	well := Check{"leader", func(context.Context) error { return nil }}
	ill := Check{"lease", func(context.Context) error { return errors.New("ran out") }}
	late := Check{"log", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}
	tests := map[string]struct {
		checks []Check
		status int
		want   string
	}{
		"all is well":       {[]Check{well}, http.StatusOK, `{"ready":true,"checks":[{"name":"leader","ok":true}]}`},
		"one is not":        {[]Check{ill, well}, http.StatusServiceUnavailable, `{"ready":false,"checks":[{"name":"lease","ok":false,"reason":"ran out"},{"name":"leader","ok":true}]}`},
		"one does not come": {[]Check{late}, http.StatusServiceUnavailable, `{"ready":false,"checks":[{"name":"log","ok":false,"reason":"context deadline exceeded"}]}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			Ready(test.checks...).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
			if got := strings.TrimSpace(w.Body.String()); w.Code != test.status || got != test.want {
				t.Errorf("got %d %s, want %d %s", w.Code, got, test.status, test.want)
			}
		})
	}
	w := httptest.NewRecorder()
	Alive().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/healthz", nil))
	if got := strings.TrimSpace(w.Body.String()); w.Code != http.StatusOK || got != `{"alive":true}` {
		t.Errorf("alive: got %d %s", w.Code, got)
	}
}
