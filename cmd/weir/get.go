package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/structpb"

	"weir/api/poolfile"
)

func newGetCommand(f *clientFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get [PATH]",
		Short: "Show scheduler attributes by path",
		Long: `Show scheduler attributes by path:

  scheduler/pool_trees/<tree>/pools/<pool>/<attribute>
  scheduler/pool_trees/<tree>/operations/<operation>/<attribute>
  scheduler/pool_trees/<tree>/nodes/<node>/<attribute>
  scheduler/<attribute>

A shorter path shows what is below it: names in a folder, all attributes of
a pool, an operation or a node.`,
		Example: `  weir get scheduler/pool_trees/default/pools/ads/fair_share_ratio
  weir get scheduler/pool_trees/default/pools/ads/detailed_fair_share/total/cpu
  weir get scheduler/pool_trees/default/nodes/n1 -o json`,
		ValidArgsFunction: f.completePath,
		RunE: f.shows(func(ctx context.Context, s *session, args []string) (view, error) {
			value, err := s.Attribute(ctx, strings.Join(args, ""))
			return view{message: value, text: func(time.Time) string { return attributeText(value) }}, err
		}),
	}
	return cmd
}

// attributeText formats a value: a scalar on one line, a list of names one per line,
// anything else as YAML.
func attributeText(value *structpb.Value) string {
	switch v := value.AsInterface().(type) {
	case map[string]any:
		return yamlText(value)
	case []any:
		var b strings.Builder
		for _, item := range v {
			text, ok := item.(string)
			if !ok {
				return yamlText(value)
			}
			b.WriteString(printable(text) + "\n")
		}
		return b.String()
	case nil:
		return none + "\n"
	default:
		return printable(poolfile.Text("", v)) + "\n"
	}
}

func yamlText(value *structpb.Value) string {
	data, err := encode(value, formatYAML)
	if err != nil {
		return err.Error() + "\n"
	}
	return string(data)
}

// completePath suggests the names below the last folder of a path.
func (f *clientFlags) completePath(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	folder := typed[:strings.LastIndexByte(typed, '/')+1]
	found, directive := f.suggest(true, func(ctx context.Context, s *session) ([]cobra.Completion, error) {
		value, err := s.Attribute(ctx, folder)
		var out []cobra.Completion
		for _, item := range value.GetListValue().GetValues() {
			out = append(out, folder+item.GetStringValue())
		}
		for name := range value.GetStructValue().GetFields() {
			out = append(out, folder+name)
		}
		return out, err
	})(cmd, args, typed)
	return found, directive | cobra.ShellCompDirectiveNoSpace
}
