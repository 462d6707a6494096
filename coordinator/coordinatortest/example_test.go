package coordinatortest_test

import (
	"context"
	"fmt"
	"time"

	"github.com/sagacity-tx/sagacity/coordinator/client"
	"github.com/sagacity-tx/sagacity/coordinator/coordinatortest"
	"github.com/sagacity-tx/sagacity/saga"
)

var trip = saga.Define("trip").
	TCC("room", "hotel", "book").
	TCC("seat", "airline", "reserve").
	Pivot("pay", "bank", "charge").
	MustBuild()

// order is what a service does, and what is to be tested: it starts a transaction and tells its customer.
func order(ctx context.Context, sagacity *client.Client, number string) (string, error) {
	s, err := sagacity.Submit(ctx, client.Submission{Definition: trip, Input: map[string]int{"cents": 4200}},
		client.SubmitOptions{RequestID: "order-" + number, Wait: 5 * time.Second})
	switch {
	case err != nil:
		return "", err
	case s.Transaction.Result == saga.ResultSucceeded:
		return "booked", nil
	case s.Transaction.Result == saga.ResultFailed:
		return "sorry: " + s.Transaction.Cause.Code, nil
	}
	return "we will write to you", nil
}

// A test of code that starts transactions. In a test, coordinatortest.New(t) takes the place of Start and Close.
func Example() {
	c := coordinatortest.Start()
	defer c.Close()
	c.Participant("hotel").On("book", saga.KindTCC, coordinatortest.Done(map[string]int{"room": 7}))
	c.Participant("airline").On("reserve", saga.KindTCC, coordinatortest.Retry(2))
	c.Participant("bank").On("charge", saga.KindPivot, coordinatortest.Refuse("insufficient_funds", ""))

	fmt.Println(order(context.Background(), c.Client(), "1"))
	for _, call := range c.Calls() {
		fmt.Println(call)
	}
	// Output:
	// sorry: insufficient_funds <nil>
	// room/try done
	// seat/try retry error
	// seat/try retry error
	// seat/try done
	// pay/try refused insufficient_funds
	// seat/cancel done
	// room/cancel done
}

// What the service tells its customer when it is not known yet what becomes of the order.
func ExampleManualTime() {
	c := coordinatortest.Start(coordinatortest.ManualTime())
	defer c.Close()
	c.Participant("hotel").On("book", saga.KindTCC, coordinatortest.Delay(time.Minute, coordinatortest.Done(nil)))
	c.Participant("airline").On("reserve", saga.KindTCC)
	c.Participant("bank").On("charge", saga.KindPivot)

	fmt.Println(order(context.Background(), c.Client(), "1"))
	c.Advance(2 * time.Minute)
	fmt.Println(c.Last().Status)
	fmt.Println(order(context.Background(), c.Client(), "1")) // the customer asks again
	// Output:
	// we will write to you <nil>
	// committed
	// booked <nil>
}

// A try that is late comes after its cancel: it must not take effect any more.
func ExampleCoordinator_Late() {
	c := coordinatortest.Start()
	defer c.Close()
	c.Participant("hotel").On("book", saga.KindTCC)
	c.Participant("bank").On("charge", saga.KindSaga, coordinatortest.Refuse("insufficient_funds", ""))
	c.Late("room", saga.PhaseTry, time.Minute, coordinatortest.Always)

	both := saga.Define("both").TCC("room", "hotel", "book", saga.Root()).Saga("pay", "bank", "charge", saga.Root()).MustBuild()
	_, err := c.Client().Submit(context.Background(), client.Submission{Definition: both}, client.SubmitOptions{})
	fmt.Println(c.Last().Status, err, c.Calls("hotel"), c.Calls("bank"))
	// Output: cancelled <nil> [] [pay/try refused insufficient_funds]
}
