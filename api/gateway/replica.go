package gateway

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"

	"weir/api/client"
	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
)

const (
	// rosterFor is how long the addresses of replicas are taken to be right.
	rosterFor = 10 * time.Second
	// maxMembers bounds the list of replicas, in bytes.
	maxMembers = 1 << 20
)

// roster holds where replicas are reached: the page asks each of them how it fares, and for its audit log.
type roster struct {
	mu        sync.Mutex
	addresses map[string]string
	asked     time.Time
}

// addressOf returns the address of the replica that a call names; empty if it names none. A browser can only name
// replicas of the cluster, so that it cannot have this process connect to anything else.
func (h *Handler) addressOf(ctx context.Context, r *http.Request, who visitor) (string, error) {
	replica := r.Header.Get(apipb.HeaderReplica)
	switch {
	case replica == "":
		return "", nil
	case methods[r.URL.Path] == changes:
		return "", refusal(connect.CodeInvalidArgument, apipb.CodeInvalidArgument, "%s: %s: only calls that change nothing can name a replica", name(r.URL.Path), apipb.HeaderReplica)
	}
	h.roster.mu.Lock()
	address, fresh := h.roster.addresses[replica], h.cfg.Now().Sub(h.roster.asked) < rosterFor
	h.roster.mu.Unlock()
	if address != "" && fresh {
		return address, nil
	}
	addresses, err := h.members(ctx, who)
	if err != nil {
		return "", h.unanswered(ctx, err)
	}
	h.roster.mu.Lock()
	h.roster.addresses, h.roster.asked = addresses, h.cfg.Now()
	h.roster.mu.Unlock()
	if address = addresses[replica]; address == "" {
		return "", refusal(connect.CodeNotFound, apipb.CodeUnknownReplica, "%s: there is no replica %q: see weir cluster members", name(r.URL.Path), replica)
	}
	return address, nil
}

// members asks the cluster for the addresses of its replicas, by their ids.
func (h *Handler) members(ctx context.Context, who visitor) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, whoPatience)
	defer cancel()
	header := http.Header{"Accept-Encoding": {"identity"}, "Content-Type": {"application/json"}}
	who.introduce(header)
	answer, err := h.cfg.Cluster.Forward(ctx, client.Forwarded{Procedure: apipbconnect.ClusterServiceMembersProcedure, Header: header, Body: []byte("{}")})
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	var said struct {
		Members []struct{ ID, Address string }
	}
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxMembers))
	if err == nil {
		err = json.Unmarshal(data, &said)
	}
	if err != nil {
		return nil, err
	}
	addresses := make(map[string]string, len(said.Members))
	for _, m := range said.Members {
		addresses[m.ID] = m.Address
	}
	return addresses, nil
}
