package remote

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"weir/messages/remotepb"
)

// `reserved` is the first character of the names of actors that belong to this package. replyPrefix
// begins the names of the receivers of replies.
const (
	reserved    = "$"
	replyPrefix = "$reply/"
)

const (
	// maxName is how many bytes a published name may have.
	maxName = 192
	// maxDetail is how many bytes of a failure's cause are sent to the peer.
	maxDetail = 1024
)

// process represents all actors on other machines. It accepts only replies to their requests. It
// has no state, so the copy that a PID caches never goes stale.
type process struct {
	remote *Remote
}

// SendUserMessage implements actor.Process.
func (p *process) SendUserMessage(pid *actor.PID, message any) {
	if to, ok := strings.CutPrefix(pid.GetId(), replyPrefix); ok {
		p.remote.reply(pid.GetAddress(), to, actor.UnwrapEnvelopeMessage(message))
		return
	}
	p.remote.counters.drop(notSendable, 1)
	p.remote.system.DeadLetter.SendUserMessage(pid, message)
}

// SendSystemMessage implements actor.Process. Actors of another machine cannot be
// watched or stopped from here.
func (p *process) SendSystemMessage(pid *actor.PID, message any) {
	p.remote.counters.drop(notSendable, 1)
	p.remote.system.DeadLetter.SendSystemMessage(pid, message)
}

// Stop implements actor.Process.
func (p *process) Stop(pid *actor.PID) { p.SendSystemMessage(pid, &actor.Stop{}) }

// reply sends the peer an actor's answer to its request. `to` is the id that localPID made, without
// replyPrefix.
func (r *Remote) reply(peer, to string, answer any) {
	stream, request, _ := strings.Cut(to, "/")
	s := r.stream(peer)
	id, err := strconv.ParseUint(request, 10, 64)
	if err != nil || s == nil || stream != strconv.FormatUint(s.number, 10) {
		r.counters.drop(peerGone, 1)
		return
	}
	s.respond(id, answer)
}

// respond answers the peer's request with this id.
func (s *session) respond(id uint64, answer any) {
	r := s.remote
	switch a := answer.(type) {
	case *actor.DeadLetterResponse:
		s.fail(id, fmt.Errorf("%w: the actor stopped before it replied", ErrNotFound))
		return
	case proto.Message:
		// A message that is also an error is sent as a message.
	case error:
		s.sendFailure(id, remotepb.Failure_CODE_REFUSED, a.Error())
		return
	}
	payload, err := encode(answer, s.peer.maxMessageBytes)
	if err == nil {
		err = s.enqueue(&remotepb.Frame{Kind: &remotepb.Frame_Reply{Reply: &remotepb.Reply{Id: id, Payload: payload}}}, payload)
	}
	switch {
	case errors.Is(err, ErrNotConnected):
		r.counters.drop(peerGone, 1)
	case err != nil:
		r.log.Warn("reply dropped", "to", s.peer.name, "cause", err)
		s.fail(id, err)
	}
}
