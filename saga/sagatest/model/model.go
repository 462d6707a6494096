package model

import (
	"github.com/sagacity-tx/sagacity/saga"
)

// Options say what an exploration includes beside loss, duplication, reordering, crashes, clocks, clients and operators,
// which are always there.
type Options struct {
	// Attempts bounds how often the coordinator sends an operation since its start or since an operator sent it last;
	// 0 means 2.
	Attempts int
	// LocalTransactions takes every command through its begin and its commit instead of one step.
	LocalTransactions bool
	// EveryDelivery makes every reply an event of its own, instead of all that a participant can make at once. It
	// shows for small definitions that nothing is lost that way, and is too slow for others.
	EveryDelivery bool
	// Inquiries adds the answers to inquire (S2.11).
	Inquiries bool
	// External makes all effects external ones, with a lease.
	External External
	// Faults are planted to show that the model finds them.
	Faults Faults
	// StatesMax ends an exploration that has become too large; 0 means no bound.
	StatesMax int
	// Progress is called now and then with how far it has come.
	Progress func(Report)
}

func (o Options) attempts() int {
	if o.Attempts == 0 {
		return 2
	}
	return o.Attempts
}

// Faults are mistakes that a shell around Step and Admit could make.
type Faults struct {
	NoVersionCheck bool // a second coordinator, whose cache may be old, writes whatever the stored version is (C9)
	PublishFirst   bool // it sends commands before it commits (C2)
	NoRowLock      bool // a participant commits what it decided on a row that another command has changed since (B2)
	NoLeaseToken   bool // a participant stores what became of an external effect though its lease has passed (B6)
}

// Model is one definition under exploration, with everything that has been asked of Step and Admit so far.
type Model struct {
	def *saga.Definition
	opt Options

	comesAfter [stepsMax][stepsMax]bool // step i comes after step j, directly or not
	steps      int                      // calls of Step

	rows     []*row
	rowIDs   map[string]uint32
	contents map[[32]byte]uint16

	// By step.
	commands   [stepsMax]map[commandKey]saga.Command
	kinds      [stepsMax][]replyKind
	kindIDs    [stepsMax]map[replyKind]int
	sigs       [stepsMax][]sig
	sigIDs     [stepsMax]map[sig]uint32
	barriers   [stepsMax][]barrier
	barrierIDs [stepsMax]map[string]uint32
	answerMemo [stepsMax]map[answersKey][]answer
	locals     [stepsMax][]local
	localIDs   [stepsMax]map[local]uint32
	settledIDs [stepsMax]map[uint64]uint32
	moveMemo   [stepsMax]map[uint64][]localMove

	way  map[wayKey]uint32
	ends map[state]bool // from where an end was reached without faults

	states  []state // in the order of discovery
	parents []uint32
	index   index
}

// New returns the model of a definition that Definitions has made.
func New(def *saga.Definition, opt Options) *Model {
	m := &Model{
		def: def, opt: opt, rowIDs: map[string]uint32{}, contents: map[[32]byte]uint16{{}: 0},
		way: map[wayKey]uint32{}, ends: map[state]bool{},
	}
	for i := range def.Steps {
		m.commands[i] = map[commandKey]saga.Command{}
		m.kindIDs[i] = map[replyKind]int{}
		m.sigIDs[i] = map[sig]uint32{}
		m.barrierIDs[i] = map[string]uint32{}
		m.answerMemo[i] = map[answersKey][]answer{}
		m.localIDs[i] = map[local]uint32{}
		m.settledIDs[i] = map[uint64]uint32{}
		m.moveMemo[i] = map[uint64][]localMove{}
		for _, j := range def.Predecessors(i) { // a predecessor has a lower number
			m.comesAfter[i][j] = true
			for k := range j {
				m.comesAfter[i][k] = m.comesAfter[i][k] || m.comesAfter[j][k]
			}
		}
	}
	return m
}

// first submits the transaction with a delayed start.
func (m *Model) first() (state, string) {
	tx := saga.Transaction{
		Tenant: "shop", ID: saga.ID{0x01, 0x9b, 6: 0x70, 8: 0x80}, Version: 1, StartAt: startAt, Deadline: deadline,
		Inputs: make([]saga.Payload, len(m.def.Steps)),
	}
	for i := range tx.Inputs {
		tx.Inputs[i].Data = []byte(`{}`)
	}
	j, err := saga.Judge(saga.Case{Def: m.def, Tx: tx, Event: saga.Submitted{}}, begin, longest{})
	if problem := m.checkEdge(&tx, saga.Submitted{}, j, err); problem != "" {
		return state{}, problem
	}
	id, problem := m.internRow(j.Tx)
	s := state{row: id}
	for i := range m.def.Steps {
		none := m.internLocal(i, local{barrier: m.internBarrier(i, barrier{})})
		s.locals[i] = m.settled(i, none, m.rows[id].sig[i])
	}
	return s, problem
}
