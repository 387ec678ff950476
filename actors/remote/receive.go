package remote

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/types/known/anypb"

	"weir/messages/remotepb"
)

// receive handles one frame from the peer.
func (s *session) receive(frame *remotepb.Frame) {
	switch kind := frame.GetKind().(type) {
	case *remotepb.Frame_Send:
		s.receiveMessage(kind.Send.GetTo(), kind.Send.GetPayload(), nil)
	case *remotepb.Frame_Request:
		s.receiveMessage(kind.Request.GetTo(), kind.Request.GetPayload(), kind.Request)
	case *remotepb.Frame_Reply:
		s.receiveReply(kind.Reply)
	case *remotepb.Frame_Failure:
		s.receiveFailure(kind.Failure)
	case *remotepb.Frame_Ping:
		s.mu.Lock()
		s.out.pong = true
		s.mu.Unlock()
		s.signal()
	case *remotepb.Frame_Pong:
		// The method read has already recorded that the peer is alive.
	case *remotepb.Frame_Bye:
		s.end(fmt.Errorf("%w: %s", errBye, kind.Bye.GetReason()), "")
	default:
		s.remote.counters.drop(unknownFrame, 1)
	}
}

// receiveMessage passes a message on to its actor; request is nil if the sender expects no reply.
func (s *session) receiveMessage(to string, payload *anypb.Any, request *remotepb.Request) {
	r := s.remote
	r.counters.receivedMessages.Add(1)
	r.counters.receivedBytes.Add(uint64(len(payload.GetValue())))
	found, err := r.reach(to, s.peer)
	if err != nil {
		s.fail(request.GetId(), err)
		return
	}
	message, err := decode(payload, r.limits.MaxMessageBytes)
	if err != nil {
		s.fail(request.GetId(), err)
		return
	}
	inbound := &Inbound{From: s.peer.id, Incarnation: s.peer.incarnation, Message: message, inbox: found.inbox, size: len(payload.GetValue())}
	if err := found.inbox.reserve(inbound.size); err != nil {
		s.turnAway(found.inbox, request, err)
		return
	}
	if request == nil {
		r.system.Root.Send(found.pid, inbound)
		return
	}
	inbound.Deadline = time.Now().Add(time.Duration(request.GetTimeoutMillis()) * time.Millisecond)
	r.system.Root.RequestWithCustomSender(found.pid, inbound, s.localPID(request.GetId()))
}

// turnAway answers a message whose actor has a full inbox.
func (s *session) turnAway(inbox *Inbox, request *remotepb.Request, err error) {
	s.remote.counters.drop(inboxFull, 1)
	if request == nil || inbox.full == nil {
		s.sendFailure(request.GetId(), remotepb.Failure_CODE_QUEUE_FULL, detailOf(err))
		return
	}
	s.respond(request.GetId(), inbox.full)
}

// reach returns the live actor that is published under name for peer's role.
func (r *Remote) reach(name string, peer counterpart) (publication, error) {
	found, ok := (*r.published.Load())[name]
	if !ok {
		return publication{}, fmt.Errorf("%w: %s publishes no %q", ErrNotFound, r.self, name)
	}
	if !slices.Contains(found.roles, peer.id.Role) {
		return publication{}, refusef("only %v may send to %q of %s; %s may not", found.roles, name, r.self, peer.name)
	}
	if _, alive := r.system.ProcessRegistry.Get(found.pid); !alive {
		return publication{}, fmt.Errorf("%w: %q of %s has stopped", ErrNotFound, name, r.self)
	}
	return found, nil
}

// fail reports to the peer that its request with this id has failed. If id is 0, what has failed is
// a message without a request.
func (s *session) fail(id uint64, err error) {
	k := kindOf(err)
	s.remote.counters.drop(k.counted, 1)
	s.sendFailure(id, k.code, detailOf(err))
}

func (s *session) sendFailure(id uint64, code remotepb.Failure_Code, detail string) {
	if len(detail) > maxDetail {
		// Part of the text comes from the peer, so it may be long.
		detail = detail[:maxDetail]
	}
	failure := &remotepb.Failure{Id: id, Code: code, Detail: strings.ToValidUTF8(detail, "")}
	s.notice(&remotepb.Frame{Kind: &remotepb.Frame_Failure{Failure: failure}})
}

// detailOf returns the text of err without the prefix that its code already expresses.
func detailOf(err error) string {
	if refused, ok := errors.AsType[*ErrRefused](err); ok {
		return refused.Reason
	}
	if k := kindOf(err); k.err != nil {
		return strings.TrimPrefix(err.Error(), k.err.Error()+": ")
	}
	return err.Error()
}

func (s *session) receiveReply(reply *remotepb.Reply) {
	r := s.remote
	r.counters.receivedMessages.Add(1)
	r.counters.receivedBytes.Add(uint64(len(reply.GetPayload().GetValue())))
	message, err := decode(reply.GetPayload(), r.limits.MaxMessageBytes)
	if !s.answer(reply.GetId(), message, err) {
		r.counters.drop(unasked, 1)
	}
}

func (s *session) receiveFailure(failure *remotepb.Failure) {
	err := errorOf(failure)
	if failure.GetId() == 0 {
		s.remote.counters.drop(undelivered, 1)
		s.remote.log.Debug("message undelivered", "peer", s.peer.name, "cause", err)
		return
	}
	if !s.answer(failure.GetId(), nil, err) {
		s.remote.counters.drop(unasked, 1)
	}
}

// localPID returns the PID that an actor replies to, as the sender of the peer's request with this
// id. Only this session can resolve it: see Remote.reply.
func (s *session) localPID(id uint64) *actor.PID {
	return actor.NewPID(s.peer.name, replyPrefix+strconv.FormatUint(s.number, 10)+"/"+strconv.FormatUint(id, 10))
}
