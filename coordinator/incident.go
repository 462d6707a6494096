package coordinator

import (
	"encoding/json"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sagacity-tx/sagacity/internal/pg"
	"github.com/sagacity-tx/sagacity/saga"
)

// incidentRow records a contradictory or orphan reply: an alarm for people, never replayed (S2.10).
type incidentRow struct {
	it      *item
	problem string
}

func (r incidentRow) queue(batch *pgx.Batch) {
	reply := r.it.event.(saga.Replied).Reply
	clean := make(map[string][]string, len(r.it.source.Header))
	for name, values := range r.it.source.Header {
		for _, v := range values {
			clean[pg.Text(name, 256)] = append(clean[pg.Text(name, 256)], text(v))
		}
	}
	headers, _ := json.Marshal(clean) // text always encodes
	body := r.it.source.Data
	if body == nil {
		body = []byte{}
	}
	batch.Queue(sqlInsertIncident, uuid.Must(uuid.NewV7()), reply.Tenant, uuid.UUID(reply.Transaction), reply.Step,
		string(reply.Phase), text(r.problem), text(r.it.source.Subject), headers, body)
}
