// Package health answers whether a process is alive, and whether it is ready for
// work, with reasons.
package health

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// patience bounds all checks of one question: who asks waits a second or so.
const patience = time.Second

// Check is one thing that has to be well for a process to be ready.
type Check struct {
	Name string
	// Ask returns nil, or what is wrong, before ctx is done.
	Ask func(ctx context.Context) error
}

// result is what is shown of a check.
type result struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Reason string `json:"reason,omitempty"`
}

// Alive returns what answers /healthz: 200, as long as the process can.
func Alive() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		respond(w, http.StatusOK, struct {
			Alive bool `json:"alive"`
		}{true})
	})
}

// Ready returns what answers /readyz: 200 when every check is well, 503 otherwise,
// and what each of them says.
func Ready(checks ...Check) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		answer := struct {
			Ready  bool     `json:"ready"`
			Checks []result `json:"checks"`
		}{Ready: true}
		status := http.StatusOK
		for _, check := range checks {
			shown := result{Name: check.Name, OK: true}
			if err := check.Ask(ctx); err != nil {
				shown.OK, shown.Reason = false, err.Error()
				answer.Ready, status = false, http.StatusServiceUnavailable
			}
			answer.Checks = append(answer.Checks, shown)
		}
		respond(w, status, answer)
	})
}

func respond(w http.ResponseWriter, status int, answer any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	// Who has gone needs no answer.
	_ = json.NewEncoder(w).Encode(answer)
}
