// Package health answers whether a process is alive, and whether it is ready for
// work, with reasons.
package health

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// patience bounds all checks of one request: probes wait for about a second.
const patience = time.Second

// Check is one condition for a process to be ready.
type Check struct {
	Name string
	// Ask returns nil if the condition holds, else the reason. It returns before ctx
	// is done.
	Ask func(ctx context.Context) error
}

// result is the result of a check in the answer.
type result struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Reason string `json:"reason,omitempty"`
}

// Alive returns the handler of /healthz. It answers 200 as long as the process responds.
func Alive() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		respond(w, http.StatusOK, struct {
			Alive bool `json:"alive"`
		}{true})
	})
}

// Ready returns the handler of /readyz. It answers 200 if every check passes, otherwise
// 503, with the result of each check.
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
	// An error means that the client is gone.
	_ = json.NewEncoder(w).Encode(answer)
}
