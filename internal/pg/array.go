package pg

import "github.com/jackc/pgx/v5/pgtype"

// UUID makes a parameter of an id.
func UUID[T ~[16]byte](id T) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: true} }

// Array is a parameter of one dimension. It hands its elements out by pointer: pgtype.FlatArray boxes each of them, which is an
// allocation. T is a type of pgtype whose pointer pgx can encode itself, such as UUID and Timestamptz.
type Array[T any] []T

// Dimensions implements pgtype.ArrayGetter.
func (a Array[T]) Dimensions() []pgtype.ArrayDimension {
	if a == nil {
		return nil
	}
	return []pgtype.ArrayDimension{{Length: int32(len(a)), LowerBound: 1}}
}

// Index implements pgtype.ArrayGetter.
func (a Array[T]) Index(i int) any { return &a[i] }

// IndexType implements pgtype.ArrayGetter.
func (a Array[T]) IndexType() any { return new(T) }
