package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"weir/api/client"
	"weir/messages/apipb/apipbconnect"
)

// whoPatience bounds how long the page waits to learn what the cluster says of who looks.
const whoPatience = 3 * time.Second

// sessionAnswer says to the page who looks.
type sessionAnswer struct {
	Name   string   `json:"name"`
	Role   string   `json:"role"`
	Groups []string `json:"groups"`
	// Write says that the page may change something, as far as its own process goes.
	Write bool `json:"write"`
	// SignOut is the path that ends the session; empty if nobody has to sign in.
	SignOut string `json:"signOut"`
	Version string `json:"version"`
}

// session says who looks, or 401.
func (h *Handler) session(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	who, err := h.usher.visitor(r)
	if err != nil {
		w.WriteHeader(http.StatusUnauthorized)
		writeJSON(w, map[string]string{"code": "unauthenticated", "message": err.Error()})
		return
	}
	answer := sessionAnswer{
		Name: who.name, Groups: who.groups, Write: h.cfg.Write, SignOut: h.usher.signOut(), Version: h.cfg.Version,
	}
	// A cluster that does not answer keeps nobody from the page, which says so itself, and asks again while it knows no
	// role.
	h.ask(r.Context(), who, &answer)
	if answer.Groups == nil {
		answer.Groups = []string{}
	}
	writeJSON(w, answer)
}

// ask fills in what the cluster says of who looks: also groups that the cluster itself has.
func (h *Handler) ask(ctx context.Context, who visitor, answer *sessionAnswer) {
	ctx, cancel := context.WithTimeout(ctx, whoPatience)
	defer cancel()
	header := http.Header{"Accept-Encoding": {"identity"}, "Content-Type": {"application/json"}}
	who.introduce(header)
	response, err := h.cfg.Cluster.Forward(ctx, client.Forwarded{
		Procedure: apipbconnect.AccessServiceWhoAmIProcedure, Header: header, Body: []byte("{}"),
	})
	if err != nil {
		return
	}
	defer response.Body.Close()
	var said struct {
		User, Role string
		Groups     []string
	}
	data, err := io.ReadAll(io.LimitReader(response.Body, maxChange))
	if err == nil && response.StatusCode == http.StatusOK && json.Unmarshal(data, &said) == nil {
		answer.Name, answer.Role, answer.Groups = said.User, said.Role, said.Groups
	}
}

func writeJSON(w http.ResponseWriter, value any) {
	var b bytes.Buffer
	if json.NewEncoder(&b).Encode(value) == nil {
		// Whoever no longer listens needs no answer.
		_, _ = w.Write(b.Bytes())
	}
}
