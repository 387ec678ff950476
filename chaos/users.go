package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/structpb"

	"weir/api/client"
	"weir/chaos/history"
	"weir/messages/apipb"
	"weir/messages/apipb/apipbconnect"
)

// Users lets a run act as users of the cluster. Each has a certificate of role user. The user ""
// is an operator.
type Users interface {
	// Client returns a client of the whole cluster.
	Client(user string) (*client.Client, error)
	// Gates returns the API of each replica.
	Gates(user string) ([]Gate, error)
}

// Gate is where a user reaches the API of one replica.
type Gate struct {
	Replica string
	HTTP    connect.HTTPClient
	URL     string
}

// The users of a run, beside its clients. Strangers never have a right. The users who swing have
// rights that come and go: one by the list of a pool, one as a member of a group.
var strangers = []string{"mallory", "trudy"}

const (
	swingsByACL   = "swing-acl"
	swingsByGroup = "swing-group"
)

// clientUser is the user of a client.
func clientUser(client int) string { return fmt.Sprintf("client%d", client) }

// pool is the name of a client's own pool: each has one, so that the limits of pools are not
// reached.
func pool(client int) string { return fmt.Sprintf("chaos%d", client) }

// userOfPool is the subject to which a client's pool gives the right use: every second time it is
// a group.
func userOfPool(client int) (subject, group string) {
	if client%2 == 1 {
		return "user:" + clientUser(client), ""
	}
	group = fmt.Sprintf("clients%d", client)
	return "group:" + group, group
}

// crew is the group of the user who swings by group. It is replaced by another if the outcome of
// a change is unknown.
func crew(number int) string { return fmt.Sprintf("crew%d", number) }

// MakePools makes the pool of each client, in which only that client may start operations. The root
// of the tree gives rights to nobody.
func MakePools(ctx context.Context, api *client.Client, clients int) error {
	nobody, err := structpb.NewStruct(map[string]any{"acl": map[string]any{history.MayUse: []any{}}})
	if err != nil {
		return err
	}
	if _, err := api.SetTree(ctx, &apipb.SetTreeRequest{Options: nobody}); err != nil {
		return fmt.Errorf("take away the rights of everyone: %w", err)
	}
	if err := api.EditGroup(ctx, &apipb.EditGroupRequest{Group: crew(1)}); err != nil {
		return fmt.Errorf("make groups of the run: %w", err)
	}
	for i := range clients {
		subject, group := userOfPool(i + 1)
		if group != "" {
			if err := api.EditGroup(ctx, &apipb.EditGroupRequest{Group: group, Add: []string{clientUser(i + 1)}}); err != nil {
				return fmt.Errorf("make groups of the run: %w", err)
			}
		}
		list := rights{use: []string{subject}}
		if i+1 == groupSwingsIn {
			list = list.with("group:" + crew(1))
		}
		options, err := structpb.NewStruct(map[string]any{"max_running_operation_count": 50, "max_operation_count": 1000, "acl": list.option()})
		if err != nil {
			return err
		}
		if _, err := api.CreatePool(ctx, &apipb.Pool{Name: pool(i + 1), Options: options}); err != nil {
			return fmt.Errorf("make pools of the run: %w", err)
		}
	}
	return nil
}

// The clients in whose pools rights come and go.
const (
	aclSwingsIn   = 1
	groupSwingsIn = 2
)

// rights are those that a pool gives.
type rights struct{ use, manage []string }

// swinging are the rights that come and go.
var swinging = []string{history.MayUse, history.MayManage}

// with returns the rights, and those that come and go for a subject.
func (r rights) with(subject string) rights {
	return rights{append(slices.Clone(r.use), subject), append(slices.Clone(r.manage), subject)}
}

// option is the rights as an option of a pool.
func (r rights) option() map[string]any {
	list := map[string]any{history.MayUse: anys(r.use)}
	if len(r.manage) > 0 {
		list[history.MayManage] = anys(r.manage)
	}
	return list
}

func anys(texts []string) (out []any) {
	for _, text := range texts {
		out = append(out, text)
	}
	return out
}

// addUsers adds the users whose rights are tested, and records who has which rights from the start.
func (l *load) addUsers(ctx context.Context) error {
	operator, err := l.api.WhoAmI(ctx)
	if err != nil {
		return err
	}
	initial := []history.Turn{{User: operator.GetUser(), Rights: []string{history.MayOperate}, Way: "role"}}
	for i := range l.cfg.Clients {
		initial = append(initial, history.Turn{User: clientUser(i + 1), Rights: []string{history.MayUse}, Pool: pool(i + 1), Way: "first"})
	}
	for _, turn := range initial {
		turn.Give, turn.Outcome = true, history.OK
		if err := l.turns.Write(turn); err != nil {
			return err
		}
	}
	operating, err := l.doors("")
	if err != nil {
		return err
	}
	for number, user := range slices.Concat(strangers, []string{swingsByACL, swingsByGroup}) {
		doors, err := l.doors(user)
		if err != nil {
			return err
		}
		random := func(stream int) *rand.Rand { return rand.New(rand.NewPCG(l.cfg.Seed, uint64(stream+number))) }
		a := &asker{load: l, user: user, doors: doors, random: random(1000), verbs: strangersAsk}
		c := &changer{load: l, user: user, doors: operating, random: random(2000)}
		switch user {
		case swingsByACL:
			c.pool = aclSwingsIn
		case swingsByGroup:
			c.pool, c.crew = groupSwingsIn, 1
		}
		if c.pool != 0 {
			a.pool, a.verbs = pool(c.pool), swingersAsk
			l.changers = append(l.changers, c)
		}
		l.askers = append(l.askers, a)
	}
	return nil
}

// door is the API of one replica, as a user sees it. Calls are tried once: a second try could leave
// a first one behind that takes effect later.
type door struct {
	replica    string
	operations apipbconnect.OperationServiceClient
	jobs       apipbconnect.JobServiceClient
	pools      apipbconnect.PoolServiceClient
	nodes      apipbconnect.NodeServiceClient
	access     apipbconnect.AccessServiceClient
}

func (l *load) doors(user string) ([]door, error) {
	gates, err := l.cfg.Users.Gates(user)
	if err != nil {
		return nil, err
	}
	var out []door
	for _, g := range gates {
		out = append(out, door{
			g.Replica, apipbconnect.NewOperationServiceClient(g.HTTP, g.URL), apipbconnect.NewJobServiceClient(g.HTTP, g.URL),
			apipbconnect.NewPoolServiceClient(g.HTTP, g.URL), apipbconnect.NewNodeServiceClient(g.HTTP, g.URL), apipbconnect.NewAccessServiceClient(g.HTTP, g.URL),
		})
	}
	return out, nil
}

// answer classifies how a call through a door ended, and returns the code of a refusal.
func answer(err error) (outcome history.Outcome, code string) {
	var refused *connect.Error
	if err == nil {
		return history.OK, ""
	}
	if !errors.As(err, &refused) {
		return history.Unknown, ""
	}
	switch refused.Code() {
	case connect.CodePermissionDenied, connect.CodeInvalidArgument, connect.CodeNotFound, connect.CodeAlreadyExists, connect.CodeFailedPrecondition:
		return history.Refused, refused.Meta().Get(apipb.HeaderCode)
	default:
		return history.Unknown, ""
	}
}
