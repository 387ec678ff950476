package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"time"

	"connectrpc.com/connect"

	"weir/cluster/identity"
	"weir/messages/apipb"
)

// verdict says how to continue after a failed try.
type verdict struct {
	// again says that another try may succeed.
	again bool
	// unsure says that the replica may have made the change anyway.
	unsure bool
	// hopeless says that no further try at this replica can succeed.
	hopeless bool
	// after is the pause that the replica asked for.
	after time.Duration
	// leader is the address that the replica hinted at.
	leader string
	// silent says that the replica did not answer at all.
	silent bool
}

// judge returns the verdict on the error of a try.
func judge(err error) verdict {
	var answer *connect.Error
	if !errors.As(err, &answer) {
		return verdict{again: true, unsure: true, silent: true}
	}
	v := verdict{leader: answer.Meta().Get(apipb.HeaderLeader), silent: !connect.IsWireError(answer)}
	if millis, err := strconv.ParseInt(answer.Meta().Get(apipb.HeaderRetry), 10, 64); err == nil {
		v.after = time.Duration(min(max(millis, 0), maxRetryMillis)) * time.Millisecond
	}
	code := answer.Meta().Get(apipb.HeaderCode)
	switch answer.Code() {
	case connect.CodeResourceExhausted:
		// If the replica suggests no pause, the request itself exceeds a limit.
		v.again = v.after > 0
	case connect.CodeUnavailable:
		v.again = true
		// Another replica may know the events.
		v.hopeless = isHopeless(err) || code == apipb.CodeEventsMissing
		v.unsure = code != apipb.CodeNotLeader && !isDial(err) && !v.hopeless
	case connect.CodeDeadlineExceeded, connect.CodeCanceled:
		v.again, v.unsure = true, true
	case connect.CodeUnimplemented:
		// A replica of an older version does not know the call; another one may.
		v.again, v.hopeless = true, true
	case connect.CodeUnknown, connect.CodeInternal:
		// If no replica sent this error, it means that the connection broke.
		v.again, v.unsure = v.silent, v.silent
	}
	return v
}

// metaCode returns the stable code in a replica's error; empty if it has none.
func metaCode(err error) string {
	var answer *connect.Error
	if !errors.As(err, &answer) {
		return ""
	}
	return answer.Meta().Get(apipb.HeaderCode)
}

// maxRetryMillis bounds the pauses that replicas can ask for.
const maxRetryMillis = 10_000

// isDial reports whether no connection could be made, so that nothing was sent.
func isDial(err error) bool {
	var network *net.OpError
	return errors.As(err, &network) && network.Op == "dial"
}

// isHopeless reports whether one side rejects the other's certificate, or only one side
// uses TLS.
func isHopeless(err error) bool {
	err = identity.Explain(err)
	for _, known := range []error{
		identity.ErrNoCertificate, identity.ErrForeignAuthority, identity.ErrExpired, identity.ErrNotYetValid,
		identity.ErrWrongCluster, identity.ErrWrongRole, identity.ErrRefused,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	var verification *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var plaintext tls.RecordHeaderError
	return errors.As(err, &verification) || errors.As(err, &authority) || errors.As(err, &plaintext)
}

// The pauses between tries, when every replica has been tried once.
const (
	firstPause = 50 * time.Millisecond
	maxPause   = time.Second
)

// pauseBefore returns how long to wait before the next try; the parameter try counts the tries so
// far. In the first round over the replicas there is no pause; after that the pause doubles with
// each round. Half of the pause is random, so that clients that failed together do not retry
// together. The pause is never shorter than the replica asked for, and up to twice as long.
func pauseBefore(try, replicas int, asked time.Duration) time.Duration {
	round := (try - 1) / max(replicas, 1)
	var pause time.Duration
	if round > 0 {
		pause = min(firstPause<<min(round-1, 10), maxPause)
		pause = pause/2 + rand.N(pause/2+1)
	}
	if asked > 0 {
		asked += rand.N(asked)
	}
	return max(pause, asked)
}

// sleep waits for d. It returns an error if ctx is done before.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
