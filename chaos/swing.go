package chaos

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/structpb"

	"weir/chaos/history"
	"weir/messages/apipb"
	"weir/raftstore/state"
)

// changer gives rights to a user and takes them away.
type changer struct {
	*load
	user string
	// pool is the client in whose pool the user has rights.
	pool int
	// doors are those of an operator.
	doors  []door
	random *rand.Rand
	// crew is the number of the group that the user joins and leaves; 0 if the pool gives rights
	// to the user by name.
	crew int
	// on says that the user has the rights, or may have.
	on bool
}

// Rights stay as they are for so long.
const leastStay, mostStay = 300 * time.Millisecond, 3 * time.Second

// doorTimeout bounds a call through a door.
const doorTimeout = 2 * time.Second

func (c *changer) run(ctx context.Context) error {
	for sleep(ctx, leastStay+time.Duration(c.random.Int64N(int64(mostStay-leastStay)))) == nil {
		var err error
		if c.crew == 0 {
			err = c.turnByACL(ctx)
		} else {
			err = c.turnByGroup(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// turn returns the record of a change that begins now.
func (c *changer) turn(give bool, way string) history.Turn {
	return history.Turn{User: c.user, Rights: swinging, Pool: pool(c.pool), Way: way, Give: give, Called: history.Now()}
}

// turnByACL changes the rights that the pool gives to the user. Its outcome is known unless ctx is
// done.
func (c *changer) turnByACL(ctx context.Context) error {
	turn := c.turn(!c.on, history.ByACL)
	subject, _ := userOfPool(c.pool)
	wanted := rights{use: []string{subject}}
	if turn.Give {
		wanted = wanted.with("user:" + c.user)
	}
	turn.Outcome, turn.Final = history.OK, true
	if err := c.setRights(ctx, wanted); err != nil {
		turn.Outcome, turn.Final, turn.Error = history.Unknown, false, err.Error()
	}
	turn.Returned = history.Now()
	c.on = turn.Give
	return c.turns.Write(turn)
}

// setRights sets the rights that the pool gives. It returns an error only if ctx is done. When it
// returns nil, no change that it sent can take effect any more, because each names the revision of
// the tree that it is for.
func (c *changer) setRights(ctx context.Context, wanted rights) error {
	options, err := structpb.NewStruct(map[string]any{"acl": wanted.option()})
	if err != nil {
		return err
	}
	for {
		done := c.trySetRights(ctx, options)
		if done {
			return nil
		}
		if err := sleep(ctx, lookPeriod); err != nil {
			return err
		}
	}
}

// trySetRights reads the rights at one replica and, if they are not yet as wanted, sets them at
// another.
func (c *changer) trySetRights(ctx context.Context, options *structpb.Struct) (done bool) {
	ctx, cancel := context.WithTimeout(ctx, doorTimeout)
	defer cancel()
	now, err := c.door().pools.List(ctx, connect.NewRequest(&apipb.ListPoolsRequest{}))
	if err != nil || now.Msg.GetRevision() == 0 {
		return false
	}
	for _, p := range now.Msg.GetPools() {
		if p.GetName() == pool(c.pool) && sameACL(p.GetOptions(), options) {
			return true
		}
	}
	edit := &apipb.TreeEdit{Edit: &apipb.TreeEdit_Change{Change: &apipb.PoolChange{Name: pool(c.pool), Options: options}}}
	_, err = c.door().pools.Edit(ctx, connect.NewRequest(&apipb.EditTreeRequest{Edits: []*apipb.TreeEdit{edit}, ExpectedRevision: now.Msg.GetRevision()}))
	return err == nil
}

// sameACL reports whether two pools give the same rights.
func sameACL(a, b *structpb.Struct) bool {
	of := func(s *structpb.Struct, right string) (subjects []string) {
		for _, v := range s.GetFields()["acl"].GetStructValue().GetFields()[right].GetListValue().GetValues() {
			subjects = append(subjects, v.GetStringValue())
		}
		return subjects
	}
	return !slices.ContainsFunc(swinging, func(right string) bool { return !slices.Equal(of(a, right), of(b, right)) })
}

func (c *changer) door() door { return c.doors[c.random.IntN(len(c.doors))] }

// turnByGroup adds the user to the group, or removes the user from it.
func (c *changer) turnByGroup(ctx context.Context) error {
	turn := c.turn(!c.on, crew(c.crew))
	request := &apipb.EditGroupRequest{Group: turn.Way}
	if turn.Give {
		request.Add = []string{c.user}
	} else {
		request.Remove = []string{c.user}
	}
	limited, cancel := context.WithTimeout(ctx, doorTimeout)
	defer cancel()
	_, err := c.door().access.EditGroup(limited, connect.NewRequest(request))
	turn.Returned = history.Now()
	var code string
	turn.Outcome, code = answer(err)
	if err != nil {
		turn.Error = err.Error()
	}
	if !turn.Give && code == state.CodeInvalidGroup {
		// The user is not in the group: an earlier call without an answer took effect.
		turn.Outcome = history.OK
	}
	if turn.Outcome == history.OK {
		c.on = turn.Give
	}
	if err := c.turns.Write(turn); err != nil {
		return err
	}
	if turn.Give && turn.Outcome == history.Unknown {
		return c.replaceGroup(ctx)
	}
	return nil
}

// replaceGroup gives the rights of the group to a new one. The user may join the old one at any
// later time: a call without an answer may still take effect.
func (c *changer) replaceGroup(ctx context.Context) error {
	next := crew(c.crew + 1)
	for {
		limited, cancel := context.WithTimeout(ctx, doorTimeout)
		_, err := c.door().access.EditGroup(limited, connect.NewRequest(&apipb.EditGroupRequest{Group: next}))
		cancel()
		if err == nil {
			break
		}
		if sleep(ctx, lookPeriod) != nil {
			return nil
		}
	}
	turn := c.turn(false, crew(c.crew))
	subject, _ := userOfPool(c.pool)
	if c.setRights(ctx, rights{use: []string{subject}}.with("group:"+next)) != nil {
		return nil
	}
	c.crew, c.on = c.crew+1, false
	turn.Returned, turn.Outcome, turn.Final = history.Now(), history.OK, true
	return c.turns.Write(turn)
}
