package trip

import (
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sagacity-tx/sagacity/participant"
)

// Points are those of a frequent traveller.
type Points struct {
	Owner string `json:"owner"`
	N     int64  `json:"n"`
}

// HandlePoints adds an action that queues its statements. Its table is
//
//	CREATE TABLE points (owner text PRIMARY KEY, n bigint NOT NULL)
func HandlePoints(p *participant.Participant) {
	participant.Handle(p, "spend", participant.BatchSaga[Points, participant.None]{
		Try: func(b *pgx.Batch, c participant.Call[Points], _ *participant.None) error {
			b.Queue(`UPDATE points SET n = n - $2 WHERE owner = $1 AND n >= $2`, c.Input.Owner, c.Input.N).
				Exec(func(tag pgconn.CommandTag) error {
					if tag.RowsAffected() == 0 {
						return participant.Refuse("not_enough", nil)
					}
					return nil
				})
			return nil
		},
		Cancel: func(b *pgx.Batch, c participant.Settle[Points, participant.None]) error {
			b.Queue(`UPDATE points SET n = n + $2 WHERE owner = $1`, c.Input.Owner, c.Input.N)
			return nil
		},
	})
}
